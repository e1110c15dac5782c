package value

import (
	"strings"

	"github.com/agnivade/levenshtein"
)

// longest is the largest length of a word; longer ones count as no misspelling.
const longest = 32

// Word returns the one of words of which s is most likely a misspelling, in its own spelling, or
// "". It ignores case and treats '-' and '_' as equal. One letter in three may be wrong; two
// swapped neighbours are one mistake. Of equally near words the first one wins. If none is near, it
// returns the longest word that s begins with, before a '-', as data for data-dir.
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

// apart is the number of mistakes between two words.
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
