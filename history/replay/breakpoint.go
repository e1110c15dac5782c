package replay

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"millrace/events"
	"millrace/history/verify"
	"millrace/projections/view"
	"millrace/task"
	"millrace/task/node"
	"millrace/task/value"
)

// Breakpoint is a sorted list of places in a span.
type Breakpoint struct {
	Number int    `json:"number"`
	Text   string `json:"text"`
	// Hits is how many places it has.
	Hits int `json:"hits"`
	// Unanswered is for how many facts its expression had no value, and Why the first reason.
	Unanswered int    `json:"unanswered,omitempty"`
	Why        string `json:"why,omitempty"`

	hits  []hit
	wrong bool // a hit of it is a fault
}

// point is a place at a fact, or between two: behind the fact at pos, at a time no earlier than
// when the log stored it.
type point struct {
	pos int
	at  time.Time
}

func (p point) compare(q point) int { return cmp.Or(cmp.Compare(p.pos, q.pos), p.at.Compare(q.at)) }

// hit is a place where a breakpoint stops.
type hit struct {
	point
	why   string
	about view.Ref // the subject, if it is not the fact's
	seqs  []uint64 // facts as evidence
}

// The kinds of breakpoints besides expressions.
const (
	kindType   = "type"
	kindState  = "state"
	kindNode   = "node"
	kindLate   = "late"
	kindBroken = "broken"
)

// stops is a parsed breakpoint.
type stops struct {
	kind, word string
	when       *expression // nil for always
}

// parseBreak parses the text behind break: a kind with its argument, an expression, or both.
func parseBreak(text string) (stops, error) {
	var b stops
	kind, rest, _ := strings.Cut(text, " ")
	rest = strings.TrimSpace(rest)
	word, when, conditional := strings.Cut(rest, "if ")
	if rest != "" && rest != "if" && (!conditional || word != "" && !strings.HasSuffix(word, " ")) {
		word, when, conditional = rest, "", false
	}
	word = strings.TrimSpace(word)
	plain := word == "" || !strings.ContainsAny(word, " =!<>()\"'&|")
	var err error
	switch {
	case kind == kindType && plain && word != "":
		b.kind, b.word, err = kind, word, knownWord("type", word, typeWords())
	case kind == kindState && plain && word != "":
		b.kind, b.word, err = kind, word, knownWord("state", word, stateWords())
	case kind == kindNode && plain && word != "":
		b.kind, b.word, err = kind, word, node.ID(word).Validate()
	case kind == kindLate && word == "":
		b.kind = kind
	case kind == kindBroken && plain:
		if b.kind, b.word = kind, word; word != "" {
			_, err = verify.ParseRule(word)
		}
	case kind == "if":
		when, conditional = rest, true
	default:
		when, conditional = text, true
	}
	if err == nil && conditional {
		b.when, err = compile(strings.TrimSpace(when), true)
	}
	return b, err
}

// knownWord refuses an unknown word.
func knownWord(what, word string, all []string) error {
	if slices.ContainsFunc(all, func(known string) bool { return matches(word, known) }) {
		return nil
	}
	if meant := value.Word(word, all); meant != "" {
		return fmt.Errorf("there is no %s %q: did you mean %s?", what, word, meant)
	}
	return fmt.Errorf("there is no %s %q; there are %s", what, word, strings.Join(all, ", "))
}

// matches tells whether a type is the requested one, or of the requested kind.
func matches(asked, t string) bool { return asked == t || strings.HasPrefix(t, asked+".") }

func typeWords() []string {
	words := []string{Unreadable}
	for _, t := range events.Types {
		words = append(words, string(t))
	}
	return words
}

func stateWords() (words []string) {
	for _, s := range task.States() {
		words = append(words, s.String())
	}
	for _, s := range node.States() {
		if s != node.Unknown { // no fact brings one into it
			words = append(words, s.String())
		}
	}
	return words
}

// patience is after how many facts a pass checks whether it is still wanted.
const patience = 4096

// find fills a breakpoint. The error is that of ctx, or says what could not be judged.
func (s *Span) find(ctx context.Context, b stops, rules view.Rules, margin time.Duration) (*Breakpoint, error) {
	found := &Breakpoint{wrong: b.kind == kindLate || b.kind == kindBroken}
	var err error
	switch {
	case b.kind == kindLate:
		found.hits, err = s.late(ctx, rules)
	case b.kind == kindBroken:
		found.hits, err = s.broken(ctx, b.word, rules, margin)
	case b.when == nil:
		return found, s.byIndex(ctx, b, found)
	}
	if err != nil {
		return nil, err
	}
	slices.SortStableFunc(found.hits, func(a, b hit) int { return a.compare(b.point) })
	if b.when != nil {
		err = s.when(ctx, b, found)
	}
	found.Hits = len(found.hits)
	return found, err
}

// byIndex finds the facts that the index alone determines.
func (s *Span) byIndex(ctx context.Context, b stops, found *Breakpoint) error {
	ask := s.asks(b)
	for pos := s.begin; pos < len(s.facts); pos++ {
		if err := s.pause(ctx, pos); err != nil {
			return err
		}
		if ask(pos) {
			found.hits = append(found.hits, hit{point: point{pos, s.time(pos)}})
		}
	}
	found.Hits = len(found.hits)
	return nil
}

// asks returns a breakpoint's question to the index; nil if it has none.
func (s *Span) asks(b stops) func(pos int) bool {
	switch b.kind {
	case kindType:
		chosen := map[word]bool{}
		for text, n := range s.words.number {
			chosen[n] = matches(b.word, text)
		}
		return func(pos int) bool { return chosen[s.facts[pos].typ] }
	case kindState:
		var comes []bool // of nodes: which facts bring one into the state
		comes = make([]bool, len(s.facts))
		for _, ref := range s.nodes {
			was := node.Unknown
			item := view.Nothing(ref)
			for _, at := range s.chains[ref].at {
				r := s.record(int(at))
				item.Add(ref, &r)
				comes[at] = item.Node.State != was && item.Node.State.String() == b.word
				was = item.Node.State
			}
		}
		return func(pos int) bool {
			f := &s.facts[pos]
			return comes[pos] || f.is.there && f.is.state.String() == b.word && (f.was.state != f.is.state || !f.was.there)
		}
	case kindNode:
		return s.onNode(b.word)
	}
	return nil
}

// onNode tells whether a fact is about a node, or about an attempt that runs there, or ran until
// then.
func (s *Span) onNode(name string) func(pos int) bool {
	n := s.words.number[name]
	c := s.chains[view.Node(node.ID(name))]
	return func(pos int) bool {
		f := &s.facts[pos]
		if n != 0 && (f.is.node == n || f.was.node == n) {
			return true
		}
		if c == nil {
			return false
		}
		i := c.upTo(pos)
		return i > 0 && int(c.at[i-1]) == pos
	}
}

// when keeps the places at which an expression is true. Without candidate places, it tries every
// fact.
func (s *Span) when(ctx context.Context, b stops, found *Breakpoint) error {
	between := map[int][]hit{}
	for _, h := range found.hits {
		between[h.pos] = append(between[h.pos], h)
	}
	found.hits = nil
	ask := s.asks(b)
	answered, wrong := false, ""
	err := s.over(ctx, func(pos int, r *events.Record, was, is view.Item) error {
		places := between[pos]
		switch {
		case pos < s.begin, found.wrong && len(places) == 0, ask != nil && !ask(pos):
			return nil
		case !found.wrong:
			places = []hit{{point: point{pos, s.time(pos)}}}
		}
		for _, h := range places {
			value, err := b.when.eval(s.seenAt(h, b.when, r, was, is))
			if err != nil {
				why := fmt.Sprintf("at #%d: %v", r.Seq, err)
				if found.Unanswered++; found.Why == "" {
					found.Why = why
				}
				if wrong == "" && !absent(err) {
					wrong = why
				}
				continue
			}
			if answered = true; value == true {
				found.hits = append(found.hits, h)
			}
		}
		return nil
	})
	if err == nil && wrong != "" && !answered {
		return errors.New(wrong) // it can be true nowhere: wrong types of fields as they were written show only here
	}
	return err
}

// seenAt is what the expression of a breakpoint sees at a place: of a place that concerns another task
// than the fact, such as one that is late, that task.
func (s *Span) seenAt(h hit, e *expression, r *events.Record, was, is view.Item) *seen {
	if h.about.Kind == view.Tasks && h.about != view.RefOf(r) {
		is = s.fold(h.about, h.pos)
		was = is
	}
	sees := e.see(r, was, is)
	sees.Now = func() time.Time { return h.at }
	return sees
}

// over passes on all facts, with their subjects before and after.
func (s *Span) over(ctx context.Context, each func(pos int, r *events.Record, was, is view.Item) error) error {
	p := s.start()
	for pos := range s.facts {
		if err := s.pause(ctx, pos); err != nil {
			return err
		}
		r := s.record(pos)
		ref, was, is := p.add(&r)
		if err := each(pos, &r, was, is); err != nil {
			return err
		}
		p.rests(ref, was, is)
	}
	return nil
}

// broken finds the facts that break a rule of verify, or any rule.
func (s *Span) broken(ctx context.Context, rule string, rules view.Rules, margin time.Duration) ([]hit, error) {
	cfg := verify.Config{From: s.from, Settings: rules.Task, Margin: margin, Keep: len(s.facts) + 1, Import: s.imported}
	if rule != "" {
		asked, err := verify.ParseRule(rule)
		if err != nil {
			return nil, err
		}
		cfg.Rules = []verify.Rule{asked}
	}
	v := verify.New(cfg)
	for pos := range s.facts {
		if err := s.pause(ctx, pos); err != nil {
			return nil, err
		}
		r := s.record(pos)
		if err := v.Add(&r); err != nil {
			return nil, err
		}
	}
	var hits []hit
	for _, f := range v.Report(time.Time{}).Findings {
		pos := s.last()
		if n := len(f.Seqs); n > 0 {
			pos = s.after(slices.Max(f.Seqs)) - 1
		}
		if pos < s.begin {
			continue
		}
		h := hit{point: point{pos, s.time(pos)}, why: f.Rule.String() + ": " + f.What, seqs: f.Seqs}
		switch {
		case f.Task != "":
			h.about = view.Task(f.Task)
		case f.Node != "":
			h.about = view.Node(f.Node)
		}
		hits = append(hits, h)
	}
	return hits, nil
}

// errNoBreak: there is no breakpoint with that number.
var errNoBreak = errors.New("there is no such breakpoint; `b` lists them")
