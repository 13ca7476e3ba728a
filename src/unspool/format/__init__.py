"""What a line means: records, blocks, tool inputs and results, side files, and the codec for them."""
