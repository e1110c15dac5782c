package settings

import (
	"errors"
	"strings"
)

// Words splits a line as a shell does: at blanks, except within quotes or after a backslash.
func Words(line string) (words []string, err error) {
	var word strings.Builder
	var quote rune
	begun, escaped := false, false
	end := func() {
		if begun {
			words = append(words, word.String())
		}
		word.Reset()
		begun = false
	}
	for _, r := range line {
		switch {
		case escaped:
			word.WriteRune(r)
			escaped = false
		case r == '\\' && quote != '\'':
			escaped, begun = true, true
		case quote != 0 && r == quote:
			quote = 0
		case quote == 0 && (r == '\'' || r == '"'):
			quote, begun = r, true
		case quote == 0 && (r == ' ' || r == '\t'):
			end()
		default:
			word.WriteRune(r)
			begun = true
		}
	}
	end()
	if quote != 0 || escaped {
		return nil, errors.New("a quote is not closed")
	}
	return words, nil
}
