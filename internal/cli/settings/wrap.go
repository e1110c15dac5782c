package settings

import (
	"strings"
	"unicode/utf8"
)

// HelpTemplate differs from cobra's: paragraphs fit the terminal.
const HelpTemplate = `{{with (or .Long .Short)}}{{. | wrap | trimTrailingWhitespaces}}

{{end}}{{if or .Runnable .HasSubCommands}}{{.UsageString}}{{end}}`

// Wrapped breaks the paragraphs of a text that are wider than so many columns; 0 is no bound. Lines
// that begin with a space are no paragraphs: they stay as they are.
func Wrapped(text string, width int) string {
	if width <= 0 {
		return text
	}
	var out []string
	for block := range strings.SplitSeq(text, "\n\n") {
		lines := strings.Split(block, "\n")
		fits, prose := true, true
		for _, line := range lines {
			fits = fits && utf8.RuneCountInString(line) <= width
			prose = prose && !strings.HasPrefix(line, " ")
		}
		if fits || !prose {
			out = append(out, block)
			continue
		}
		var b strings.Builder
		at := 0
		for _, word := range strings.Fields(block) {
			size := utf8.RuneCountInString(word)
			switch {
			case at > 0 && at+1+size > width:
				b.WriteByte('\n')
				at = 0
			case at > 0:
				b.WriteByte(' ')
				at++
			}
			b.WriteString(word)
			at += size
		}
		out = append(out, b.String())
	}
	return strings.Join(out, "\n\n")
}
