package view

import (
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"millrace/task"
)

// KnownNames are the existing names, for completion.
type KnownNames struct {
	// Values are the names by key of a term, such as job.
	Values map[string][]string
}

// Suggestion is a completion of the word at the cursor.
type Suggestion struct {
	// Shown is the term, and Text the whole query with it.
	Shown string `json:"shown"`
	Text  string `json:"text"`
	// Cursor is where typing continues, in bytes.
	Cursor int `json:"cursor"`
}

// mostSuggestions is the largest number of suggestions.
const mostSuggestions = 16

// CompleteQuery suggests completions of the word at the cursor, which is counted in bytes: a key, or a
// value of its key. Names that begin with the word come before names that contain it elsewhere.
func CompleteQuery(text string, cursor int, known KnownNames) []Suggestion {
	cursor = max(min(cursor, len(text)), 0)
	for cursor > 0 && cursor < len(text) && !utf8.RuneStart(text[cursor]) {
		cursor--
	}
	from, upto := wordAt(text, cursor)
	word := text[from:cursor]
	if strings.HasPrefix(word, `"`) {
		return nil // it is a text
	}
	var terms []string
	key, value, isTerm := strings.Cut(word, ":")
	if isTerm {
		before := ""
		if i := strings.LastIndexByte(value, ','); i >= 0 && (key == "state" || key == "priority") { // one of several values
			before, value = value[:i+1], value[i+1:]
		}
		for _, v := range matching(valuesOf(key, known), strings.Trim(value, `"`)) {
			terms = append(terms, key+":"+before+Term(v)+" ")
		}
	} else {
		names := keyNames()
		for _, of := range partKeys {
			names[slices.Index(names, of+partName)] = of + "."
			if strings.HasPrefix(word, of+".") {
				for _, name := range known.Values[of] {
					names = append(names, of+"."+name)
				}
			}
		}
		for _, name := range matching(names, word) {
			if strings.HasSuffix(name, ".") { // the name of the part comes next
				terms = append(terms, name)
				continue
			}
			terms = append(terms, name+":")
		}
	}
	all := make([]Suggestion, 0, len(terms))
	for _, term := range terms[:min(len(terms), mostSuggestions)] {
		rest := text[upto:]
		if strings.HasSuffix(term, " ") {
			rest = strings.TrimPrefix(rest, " ")
		}
		all = append(all, Suggestion{strings.TrimSpace(term), text[:from] + term + rest, from + len(term)})
	}
	return all
}

// wordAt returns the beginning and the end of the word at the cursor.
func wordAt(text string, cursor int) (from, upto int) {
	for at := 0; at < len(text); {
		if strings.IndexByte(" \t\n", text[at]) >= 0 {
			at++
			continue
		}
		_, _, end := next(text, at)
		if at <= cursor && cursor <= end {
			return at, end
		}
		at = end
	}
	return cursor, cursor
}

// valuesOf returns the possible values of a key.
func valuesOf(key string, known KnownNames) []string {
	if key == flagKey {
		return slices.Sorted(slices.Values(flags()))
	}
	i := slices.IndexFunc(Fields, func(k Field) bool { return k.Word == key })
	if i < 0 {
		return nil
	}
	switch Fields[i].In(new(Filter)).Interface().(type) {
	case []task.State:
		names := []string{"active", "ended"}
		for _, s := range task.States() {
			names = append(names, s.String())
		}
		return names
	case time.Time:
		return []string{"10m", "1h", "2h", "24h", "7d"}
	case []int:
		return []string{"9", "8", "7", "6", "5", "4", "3", "2", "1", "0"}
	}
	return known.Values[key]
}

// matching returns the words that contain a part; those that begin with it come first.
func matching(words []string, part string) []string {
	part = strings.ToLower(part)
	var begin, within []string
	for _, w := range words {
		switch i := strings.Index(strings.ToLower(w), part); {
		case i == 0:
			begin = append(begin, w)
		case i > 0:
			within = append(within, w)
		}
	}
	return slices.Concat(begin, within)
}

// Term is a value in a query's spelling.
func Term(value string) string {
	if strings.ContainsAny(value, " \t\n") {
		return `"` + strings.ReplaceAll(value, `"`, "") + `"`
	}
	return strings.ReplaceAll(value, `"`, "")
}
