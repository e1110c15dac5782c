// Package near finds the word that somebody has most likely meant. It knows nothing of what the words are for.
package near

import (
	"strings"

	"github.com/agnivade/levenshtein"
)

// longest is the length from which a word is no misspelling of anything.
const longest = 32

// Word returns the one of words that s is most likely a misspelling of, as it stands there, or "". Small and
// capital letters are the same to it, and so are '-' and '_'. One letter in three may be wrong; two neighbours
// that have changed places are one mistake. Of words that are equally near the first one wins. If none is near, it is the longest
// one that s begins with and goes on after a '-', as data-dir does after data.
func Word(s string, words []string) string {
	if len(s) > longest {
		return ""
	}
	s = fold(s)
	best, distance := "", 1+len(s)/3
	for _, w := range words {
		if d := apart(s, fold(w)); d < distance {
			best, distance = w, d
		}
	}
	if best != "" {
		return best
	}
	for _, w := range words {
		if strings.HasPrefix(s, fold(w)+"_") && len(w) > len(best) {
			best = w
		}
	}
	return best
}

// apart is how many mistakes lie between two words.
func apart(s, w string) int {
	for i := range min(len(s), len(w)) - 1 {
		if s[i] != w[i] {
			if len(s) == len(w) && s[i] == w[i+1] && s[i+1] == w[i] && s[i+2:] == w[i+2:] {
				return 1
			}
			break
		}
	}
	return levenshtein.ComputeDistance(s, w)
}

func fold(s string) string { return strings.ToLower(strings.ReplaceAll(s, "-", "_")) }
