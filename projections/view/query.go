package view

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"millrace/task"
	"millrace/task/placement"
	"millrace/task/value"
)

// QueryKeys are the keys of terms, each with an example: those of [view.Fields], and one for all that are
// true or false.
var QueryKeys = func() (keys []struct{ Name, Example string }) {
	for i := range Fields {
		k := &Fields[i]
		name, _, _ := strings.Cut(k.Example, ":")
		if name != "" && (name != flagKey || k.Name == "Dead") { // one for all that are true or false
			keys = append(keys, struct{ Name, Example string }{name, k.Example})
		}
	}
	return keys
}()

// partKeys are the keys of values that have parts; behind a dot stands the name of a part. partName is it in words.
var partKeys = []string{"param", "result", "record"}

const partName = ".NAME"

// flagKey is the key of all fields that are true or false.
const flagKey = "is"

// WrongTerm names the invalid term of a query, and its beginning, counted in bytes.
type WrongTerm struct {
	At   int
	Term string
	Err  error
}

func (w *WrongTerm) Error() string { return fmt.Sprintf("%q at %d: %v", w.Term, w.At+1, w.Err) }
func (w *WrongTerm) Unwrap() error { return w.Err }

// ParseFilter parses a query: terms such as state:error, which must all match, and text that must occur
// in the id, the job, the step, the command or the message. Commas separate alternative states or
// priorities, quotes keep spaces, and a time has the form of [ParsePast]. The error is a *[WrongTerm].
func ParseFilter(text string, now time.Time) (Filter, error) {
	var q Filter
	var words []string
	seen := map[string]bool{}
	for at := 0; at < len(text); {
		if text[at] == ' ' || text[at] == '\t' || text[at] == '\n' {
			at++
			continue
		}
		word, quoted, end := next(text, at)
		key, value, isTerm := strings.Cut(word, ":")
		fail := func(err error) (Filter, error) { return Filter{}, &WrongTerm{at, text[at:end], err} }
		switch {
		case isTerm && !quoted:
			if seen[key] && key != "label" {
				return fail(fmt.Errorf("%s is there twice; commas are for several states or priorities", key))
			}
			seen[key] = true
			if err := term(&q, key, value, now); err != nil {
				return fail(err)
			}
		default:
			words = append(words, word)
		}
		at = end
	}
	q.Text = strings.Join(words, " ")
	return q, nil
}

// next returns the word at a position, without its quotes, whether it begins with one, and its end.
func next(text string, at int) (word string, quoted bool, end int) {
	var b strings.Builder
	quoted = text[at] == '"'
	in := false
	for end = at; end < len(text); end++ {
		switch c := text[end]; {
		case c == '"':
			in = !in
		case !in && (c == ' ' || c == '\t' || c == '\n'):
			return b.String(), quoted, end
		default:
			b.WriteByte(c)
		}
	}
	return b.String(), quoted, end
}

// term adds one term.
func term(q *Filter, key, value string, now time.Time) error {
	if value == "" {
		return errors.New("nothing stands behind the colon")
	}
	of, part, _ := strings.Cut(key, ".")
	if slices.Contains(partKeys, of) && part != "" {
		key = of
	}
	for i := range Fields {
		k := &Fields[i]
		field := k.In(q).Addr().Interface()
		flag, isFlag := field.(*bool)
		switch {
		case k.Example == "", isFlag && (key != flagKey || value != k.Word), !isFlag && key != k.Word:
			continue
		case isFlag:
			*flag = true
			return nil
		case part == "" && slices.Contains(partKeys, key):
			return fmt.Errorf("want %s.NAME:value, such as %s.customer:acme", key, key)
		}
		return read(field, key, part, value, now)
	}
	if key == flagKey {
		return unknownWord(value, flags(), "word for is:")
	}
	return unknownWord(key, keyNames(), "key")
}

// read adds the value of a term to a field, by its type; part is the name of a parameter, or of a part of the result or of a record.
func read(field any, key, part, value string, now time.Time) (err error) {
	switch is := field.(type) {
	case *[]task.State:
		*is, err = ParseStates([]string{value})
	case *[]int:
		*is, err = priorities(value)
	case *time.Time:
		*is, err = ParsePast(value, now)
	case *map[string]string:
		pairs := map[string]string{part: value}
		if key == "label" {
			if pairs, err = placement.ParseLabels([]string{value}); err != nil {
				return fmt.Errorf("want label:name=value: %w", err)
			}
		}
		if *is == nil {
			*is = map[string]string{}
		}
		maps.Copy(*is, pairs)
	case *string:
		*is = value
		switch key {
		case "batch":
			*is = strings.ToUpper(value)
		case "id":
			var ok bool
			if *is, ok = task.Part(value); !ok {
				err = fmt.Errorf("want at least %d characters from the beginning or the end of an id", task.MinPart)
			}
		}
	}
	return err
}

func priorities(value string) (all []int, err error) {
	for text := range strings.SplitSeq(value, ",") {
		p, err := strconv.Atoi(text)
		if err != nil {
			return nil, fmt.Errorf("%q is no priority", text)
		}
		if err := placement.ValidPriority(p); err != nil {
			return nil, err
		}
		all = append(all, p)
	}
	return all, nil
}

// flags are the words behind is:, in the order of [view.Fields].
func flags() (words []string) {
	for i := range Fields {
		if word, is := strings.CutPrefix(Fields[i].Example, flagKey+":"); is {
			words = append(words, word)
		}
	}
	return words
}

func keyNames() []string {
	names := make([]string, len(QueryKeys))
	for i, k := range QueryKeys {
		names[i] = k.Name
	}
	return names
}

// unknownWord reports an unknown word, and the word it may stand for.
func unknownWord(word string, words []string, what string) error {
	if is := value.Word(word, words); is != "" {
		return fmt.Errorf("there is no %s %s; do you mean %s?", what, word, is)
	}
	return fmt.Errorf("there is no %s %s; there are %s. Quotes make it text", what, word, strings.Join(words, ", "))
}

// ParseStates parses states, also several with commas. "active" means all states that are not terminal,
// "ended" all that are.
func ParseStates(list []string) ([]task.State, error) {
	var states []task.State
	for _, item := range list {
		for name := range strings.SplitSeq(item, ",") {
			switch name = strings.TrimSpace(name); name {
			case "active", "ended":
				for _, s := range task.States() {
					if s.Terminal() == (name == "ended") {
						states = append(states, s)
					}
				}
			default:
				s, err := task.ParseState(name)
				if err != nil {
					return nil, noState(name)
				}
				states = append(states, s)
			}
		}
	}
	return states, nil
}

// noState reports an unknown state, and the one that it may stand for.
func noState(name string) error {
	words := []string{"active", "ended"}
	for _, s := range task.States() {
		words = append(words, s.String())
	}
	if is := value.Word(name, words); is != "" {
		return fmt.Errorf("no state is called %q; do you mean %s? There are %s, and active and ended for several", name, is, StateNames())
	}
	return fmt.Errorf("no state is called %q; there are %s, and active and ended for several", name, StateNames())
}

// StateNames lists all states.
func StateNames() string {
	var names []string
	for _, s := range task.States() {
		names = append(names, s.String())
	}
	return strings.Join(names, ", ")
}

// WithTerm returns a query with another value for a key, or without the key if the value is "".
func WithTerm(text, key, value string) string {
	var kept []string
	for at := 0; at < len(text); {
		if strings.IndexByte(" \t\n", text[at]) >= 0 {
			at++
			continue
		}
		word, quoted, end := next(text, at)
		if is, _, term := strings.Cut(word, ":"); quoted || !term || is != key {
			kept = append(kept, text[at:end])
		}
		at = end
	}
	if value != "" {
		kept = append([]string{key + ":" + value}, kept...)
	}
	return strings.Join(kept, " ")
}
