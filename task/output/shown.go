package output

import "strings"

// Shown returns what a terminal would show at last of a line, and whether that is less than was
// printed. A program that draws a progress bar goes back to the beginning of its line (CR) for each
// update: what counts is the text behind the last CR that has any. So a CR at the end, as of a line
// that ends in CRLF, shows nothing, and hides nothing.
func Shown(line string) (shown string, less bool) {
	line = strings.TrimRight(line, "\r")
	i := strings.LastIndexByte(line, '\r')
	return line[i+1:], strings.Trim(line[:i+1], "\r") != ""
}
