# Shows what pip is doing in one line for each package, and all of it if it fails. The last line of the input is "exit CODE".

/^Collecting / { count++; sub(/ \(from.*/, ""); sub(/ ;.*/, ""); printf "  %3d  %s\n", count, $2 > "/dev/stderr" }
/^Installing collected packages/ { print "       installing ..." > "/dev/stderr" }
/^exit [0-9]+$/ { code = $2; next }
{ lines = lines $0 "\n" }
END { if (code) printf "%s", lines > "/dev/stderr"; exit code }
