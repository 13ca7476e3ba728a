"""Front ends: what happens in a conversation, told to programs and to people; what they say, told to it."""
