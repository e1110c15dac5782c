package whatif

import (
	"fmt"
	"slices"
	"time"

	"millrace/events"
	"millrace/history/verify"
	"millrace/task"
	"millrace/task/duties"
	"millrace/task/node"
	"millrace/task/value"
)

// Config is the question.
type Config struct {
	// Other are the other settings; none to check that all decisions repeat.
	Other verify.Other
	// Settings and Margin are those of [verify.Config].
	Settings duties.Settings
	Margin   time.Duration
	// From selects the first record whose differences are reported. Earlier records are read as
	// well.
	From func(*events.Record) bool
	// Import says what the log lacks because it was imported.
	events.Import
	// Partial says that records are missing, as in an incident file: a decision that cannot be
	// repeated for lack of them is not a mistake. All others are judged, whatever Import says.
	Partial bool
}

// Kinds of [Change].
const (
	// Differs: the decision would have had another result.
	Differs = "differs"
	// Not: the decision would not have been made then.
	Not = "not"
	// Never: the decision would have been made, and no fact records it.
	Never = "never made"
	// AsSoon: the decision would have been the same, and could have been made sooner.
	AsSoon = "sooner"
)

// Change is a decision that would have been different.
type Change struct {
	// Kind is one of [Differs], [Not], [Never] and [AsSoon].
	Kind string `json:"kind"`
	// Seq is the fact that records it; for a decision that was never made, the last fact of its
	// task before it. At is its time, and Type that of the fact; a decision never made has none.
	Seq  uint64      `json:"seq"`
	At   time.Time   `json:"at"`
	Type events.Type `json:"type,omitempty"`
	// About is what it decides about in words, Task and Node its task and node.
	About string  `json:"about"`
	Task  task.ID `json:"task,omitempty"`
	Node  node.ID `json:"node,omitempty"`
	// What describes the change, and Follows its known consequences.
	What    string   `json:"what"`
	Follows []string `json:"follows,omitempty"`
	// Fields are the differing ones.
	Fields verify.Differences `json:"fields,omitempty"`
	// Sooner is how much sooner it could have been made.
	Sooner value.Duration `json:"sooner,omitempty"`

	of topic
}

// Decisions counts the decisions that the log records.
type Decisions struct {
	// All counts all of them: Same come out as recorded, Differ differ, Sooner could have come
	// sooner, and Unknown depend on one that differs.
	All     int `json:"all"`
	Same    int `json:"same"`
	Differ  int `json:"differ"`
	Sooner  int `json:"sooner"`
	Unknown int `json:"unknown"`
	// Unjudged counts those that could not be repeated under any settings.
	Unjudged int `json:"unjudged"`
}

// Tasks counts tasks by the effect on them.
type Tasks struct {
	// All counts all of them.
	All int `json:"all"`
	// Differ have a decision that differs. Unknown depend on one that does. Later may only have
	// waited longer or shorter, for places of the others. Same are the rest.
	Differ  int `json:"differ"`
	Unknown int `json:"unknown"`
	Later   int `json:"wait_otherwise"`
	Same    int `json:"same"`
}

// Report is the answer.
type Report struct {
	// First and Last are the first and the last sequence that were read.
	First uint64 `json:"first"`
	Last  uint64 `json:"last"`
	// Decisions counts the recorded decisions by how they come out.
	Decisions Decisions `json:"decisions"`
	// Changes are in the order of the log. Each holds under the condition that nothing before it
	// was different.
	Changes []Change `json:"changes"`
	// Unknown says from where on the life of a task is unknown.
	Unknown []Unknown `json:"unknown_from"`
	// Tasks counts the tasks by the effect on them.
	Tasks Tasks `json:"tasks"`
	// Mistakes are decisions that do not repeat under their own settings.
	Mistakes []verify.Finding `json:"mistakes"`
	// Notes say what no answer can know.
	Notes []string `json:"notes,omitempty"`
	// Simulated is set if it was requested.
	Simulated *Simulated `json:"simulated,omitempty"`
}

// Unknown is a task whose life cannot be known.
type Unknown struct {
	// Task is its id.
	Task task.ID `json:"task"`
	// From is the first sequence for which that holds, and Why the cause.
	From uint64 `json:"from"`
	Why  string `json:"why"`
}

// Judge reads a log once, in order. It is for one goroutine.
type Judge struct {
	cfg     Config
	was, is *verify.Verifier // is is nil without other settings
	world   world
	first   uint64
	from    uint64
}

// New returns a judge that has read no records.
func New(cfg Config) *Judge {
	if cfg.Partial {
		cfg.Lacks = 0 // what can be repeated nevertheless is judged
	}
	rules := verify.Config{
		Rules:    []verify.Rule{verify.Decisions},
		Keep:     keep,
		Settings: cfg.Settings,
		Margin:   cfg.Margin,
		Import:   cfg.Import,
	}
	j := &Judge{cfg: cfg, was: verify.New(rules), world: newWorld()}
	if !cfg.Other.None() {
		rules.Other = cfg.Other
		j.is = verify.New(rules)
	}
	return j
}

// keep is how many changes are kept.
const keep = 100_000

// Add reads the next record, and keeps no reference to it.
func (j *Judge) Add(r *events.Record) error {
	checked, not := j.was.Judged()
	if err := j.was.Add(r); err != nil {
		return err
	}
	if j.is != nil {
		if err := j.is.Add(r); err != nil {
			return err
		}
	}
	if j.first == 0 {
		j.first = r.Seq
	}
	if j.from == 0 && (j.cfg.From == nil || j.cfg.From(r)) {
		j.from = r.Seq
	}
	j.world.add(r)
	if c, n := j.was.Judged(); c > checked && n == not {
		j.world.decided(r)
	}
	return nil
}

// Report sums up. Call it once, at the end.
func (j *Judge) Report() *Report {
	was := j.was.Report(time.Time{})
	checked, not := j.was.Judged()
	r := &Report{First: j.first, Last: was.Last, Changes: []Change{}, Unknown: []Unknown{}, Mistakes: was.Findings}
	r.Decisions = Decisions{All: checked + not, Unjudged: not}
	if j.cfg.Partial {
		r.Decisions.Unjudged += was.Violations
		r.Mistakes = []verify.Finding{}
	}
	doubt := map[topic]uint64{} // decisions that do not repeat, and from where on
	for _, f := range was.Findings {
		if t := topicOf(&f); doubt[t] == 0 {
			doubt[t] = last(f.Seqs)
		}
	}
	if j.is != nil {
		is := j.is.Report(time.Time{})
		r.Changes = j.changes(is.Findings, doubt)
	}
	j.unknown(r)
	r.Decisions.Same = r.Decisions.All - r.Decisions.Unjudged - r.Decisions.Differ - r.Decisions.Sooner - r.Decisions.Unknown
	if !j.cfg.Partial {
		r.Decisions.Same -= was.Violations
	}
	r.Notes = j.notes()
	return r
}

// changes returns the changes of all findings that are not mistakes of the log.
func (j *Judge) changes(found []verify.Finding, doubt map[topic]uint64) []Change {
	all := []Change{}
	told := map[topic]bool{}
	for i := range found {
		f := &found[i]
		of := topicOf(f)
		if at := doubt[of]; at > 0 && at <= last(f.Seqs) || told[of] || last(f.Seqs) < j.from {
			continue
		}
		told[of] = true
		c := Change{Seq: last(f.Seqs), At: f.At, Type: f.Type, About: f.About, Task: f.Task, Node: f.Node, Fields: f.Differs, of: of}
		switch {
		case f.Never:
			c.Kind, c.Type = Never, ""
		case len(f.Differs) > 0 || f.Type == events.LimitGranted:
			c.Kind = Differs
		default:
			c.Kind = Not
		}
		c.What = words(&c, f)
		all = append(all, c)
	}
	for _, s := range j.is.Sooner() {
		of := topic{'t', string(s.Task)}
		if s.Node != "" {
			of = topic{'n', string(s.Node)}
		}
		if s.Seq < j.from || doubt[of] > 0 && doubt[of] <= s.Seq {
			continue
		}
		all = append(all, Change{
			Kind:   AsSoon,
			Seq:    s.Seq,
			At:     s.At,
			Type:   s.Type,
			About:  s.About,
			Task:   s.Task,
			Node:   s.Node,
			Sooner: value.Duration(s.By),
			What:   fmt.Sprintf("it could have come up to %v sooner", value.Duration(s.By.Round(time.Millisecond))),
			of:     of,
		})
	}
	slices.SortStableFunc(all, func(a, b Change) int { return int(int64(a.Seq) - int64(b.Seq)) })
	return all
}

// notes lists the limits of any answer, whatever the log holds.
func (j *Judge) notes() (notes []string) {
	o := &j.cfg.Other
	if o.NodeTTL > 0 {
		notes = append(notes, "heartbeats are not in the log: a silence that no event records is not known, nor what a worker would have stopped by itself")
	}
	if o.Bounds.AckWait > 0 {
		notes = append(notes, "when an offer is handed out again is not in the log: by another ack_wait takeovers are known as far as leases go")
	}
	if o.Flap != (task.FlapBounds{}) {
		notes = append(notes, "only quarantines that the log records are decided again: one that would have come is not told")
	}
	if j.cfg.Partial {
		notes = append(notes, "the file holds only what lived in its span: what needs the rest is not judged")
	}
	return notes
}

func last(seqs []uint64) uint64 {
	if len(seqs) == 0 {
		return 0
	}
	return seqs[len(seqs)-1]
}

// topicOf is the subject of a finding.
func topicOf(f *verify.Finding) topic { return about(f.Type, f.Task, f.Node, f.Job, f.About) }
