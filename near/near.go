// Package near finds the word that somebody has most likely meant. It knows nothing of what the words are for.
package near

import (
	"strings"

	"github.com/agnivade/levenshtein"
)

// longest is the length from which a word is no misspelling of anything.
const longest = 32

// Word returns the one of words that s is most likely a misspelling of, as it stands there, or "". Small and
// capital letters are the same to it, and so are '-' and '_'. One letter in three may be wrong, or two in
// five, as two are that have changed places. Of words that are equally near the first one wins.
func Word(s string, words []string) string {
	if len(s) > longest {
		return ""
	}
	s = fold(s)
	best, distance := "", 1+(len(s)+1)/3
	for _, w := range words {
		if d := levenshtein.ComputeDistance(s, fold(w)); d < distance {
			best, distance = w, d
		}
	}
	return best
}

func fold(s string) string { return strings.ToLower(strings.ReplaceAll(s, "-", "_")) }
