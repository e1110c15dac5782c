package output

// Shown returns what a terminal would show at last of a line, and whether that is less than was
// printed: the text behind the last return that has any ([Last]).
func Shown(line string) (shown string, less bool) {
	from, to := Last(line)
	before, text := Last(line[:from])
	return line[from:to], text > before
}

// Last returns where the text of a line begins and ends that a terminal shows at last. A program
// that draws a progress bar returns to the beginning of its line for each update, by CR, or by the
// escape sequences that move to the first column or erase the line. So a return at the end, as of a
// line that ends in CRLF, shows nothing, and hides nothing.
func Last[T ~string | ~[]byte](line T) (from, to int) {
	start := 0
	for i := 0; i < len(line); {
		if n := returns(line[i:]); n > 0 {
			i += n
			start = i
			continue
		}
		i++
		from, to = start, i
	}
	return from, to
}

// returns is the length of the return with which a text begins, 0 if it begins with none.
func returns[T ~string | ~[]byte](text T) int {
	if text[0] == '\r' {
		return 1
	}
	if text[0] != 0x1b || len(text) < 3 || text[1] != '[' {
		return 0
	}
	switch rest := string(text[2:min(len(text), 4)]); {
	case rest[0] == 'G':
		return 3
	case rest == "0G", rest == "1G", rest == "2K":
		return 4
	}
	return 0
}
