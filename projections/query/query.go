// Package query parses the text with which people choose tasks, and the times that they type. The
// command line, the service and the pages share it. It does not run the queries.
package query

import (
	"errors"
	"fmt"
	"maps"
	"strconv"
	"strings"
	"time"

	"millrace/projections/view"
	"millrace/task"
	"millrace/task/placement"
	"millrace/task/value"
)

// Tasks is a parsed query for tasks.
type Tasks struct {
	view.Filter
	// Doubted selects tasks whose node may be lost.
	Doubted bool
}

// Keys are the keys of terms, each with an example.
var Keys = []struct{ Name, Example string }{
	{"state", "state:error,abnormal"}, {"job", "job:backup"}, {"queue", "queue:crawl"}, {"node", "node:w3"}, {"schedule", "schedule:nightly"},
	{"label", "label:env=prod"}, {paramName, paramName + ":value"}, {"priority", "priority:8,9"}, {"since", "since:2h"}, {"until", "until:12:00"}, {"is", "is:dead"},
	{"batch", "batch:01ARZ3NDEKTSV4RRFFQ69G5FAV"}, {"id", "id:9G5FAV"},
}

// paramKey begins the key of a parameter, before its name; paramName is such a key in words.
const paramKey, paramName = "param.", "param.NAME"

// Wrong names the invalid term of a query, and its beginning, counted in bytes.
type Wrong struct {
	At   int
	Term string
	Err  error
}

func (w *Wrong) Error() string { return fmt.Sprintf("%q at %d: %v", w.Term, w.At+1, w.Err) }
func (w *Wrong) Unwrap() error { return w.Err }

// Parse parses a query: terms such as state:error, which must all match, and text that must occur
// in the id, the job, the step, the command or the message. Commas separate alternative states or
// priorities, quotes keep spaces, and a time has the form of [Past]. The error is a *[Wrong].
func Parse(text string, now time.Time) (Tasks, error) {
	var q Tasks
	var words []string
	seen := map[string]bool{}
	for at := 0; at < len(text); {
		if text[at] == ' ' || text[at] == '\t' || text[at] == '\n' {
			at++
			continue
		}
		word, quoted, end := next(text, at)
		key, value, isTerm := strings.Cut(word, ":")
		fail := func(err error) (Tasks, error) { return Tasks{}, &Wrong{at, text[at:end], err} }
		switch {
		case isTerm && !quoted:
			if seen[key] && key != "label" {
				return fail(fmt.Errorf("%s is there twice; commas are for several states or priorities", key))
			}
			seen[key] = true
			if err := q.term(key, value, now); err != nil {
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
func (q *Tasks) term(key, value string, now time.Time) (err error) {
	if value == "" {
		return errors.New("nothing stands behind the colon")
	}
	if name, is := strings.CutPrefix(key, paramKey); is && name != "" {
		if q.Params == nil {
			q.Params = map[string]string{}
		}
		q.Params[name] = value
		return nil
	}
	switch key {
	case "param":
		return errors.New("want param.NAME:value, such as param.customer:acme")
	case "state":
		q.States, err = States([]string{value})
	case "job":
		q.Job = value
	case "queue":
		q.Queue = value
	case "node":
		q.Node = value
	case "schedule":
		q.Schedule = value
	case "batch":
		q.Batch = strings.ToUpper(value)
	case "label":
		labels, bad := placement.ParseLabels([]string{value})
		if bad != nil {
			return fmt.Errorf("want label:name=value: %w", bad)
		}
		if q.Labels == nil {
			q.Labels = map[string]string{}
		}
		maps.Copy(q.Labels, labels)
	case "priority":
		err = q.priorities(value)
	case "since":
		q.Since, err = Past(value, now)
	case "until":
		q.Until, err = Past(value, now)
	case "id":
		part, ok := task.Part(value)
		if q.IDPart = part; !ok {
			err = fmt.Errorf("want at least %d characters from the beginning or the end of an id", task.MinPart)
		}
	case "is":
		err = q.is(value)
	default:
		return unknown(key, keyNames(), "key")
	}
	return err
}

func (q *Tasks) priorities(value string) error {
	for text := range strings.SplitSeq(value, ",") {
		p, err := strconv.Atoi(text)
		if err != nil {
			return fmt.Errorf("%q is no priority", text)
		}
		if err := placement.ValidPriority(p); err != nil {
			return err
		}
		q.Priorities = append(q.Priorities, p)
	}
	return nil
}

func (q *Tasks) is(value string) error {
	switch value {
	case "dead":
		q.Dead = true
	case "suspect":
		q.Doubted = true
	case "root":
		q.Roots = true
	default:
		return unknown(value, []string{"dead", "suspect", "root"}, "word for is:")
	}
	return nil
}

func keyNames() []string {
	names := make([]string, len(Keys))
	for i, k := range Keys {
		names[i] = k.Name
	}
	return names
}

// unknown reports an unknown word, and the word it may stand for.
func unknown(word string, words []string, what string) error {
	if is := value.Word(word, words); is != "" {
		return fmt.Errorf("there is no %s %s; do you mean %s?", what, word, is)
	}
	return fmt.Errorf("there is no %s %s; there are %s. Quotes make it text", what, word, strings.Join(words, ", "))
}

// States parses states, also several with commas. "active" means all states that are not terminal,
// "ended" all that are.
func States(list []string) ([]task.State, error) {
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

// With returns a query with another value for a key, or without the key if the value is "".
func With(text, key, value string) string {
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
