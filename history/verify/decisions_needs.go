package verify

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/oklog/ulid/v2"

	"millrace/events"
	"millrace/history/verify/findings"
	"millrace/task"
	"millrace/task/birth"
)

// Decisions that follow from other tasks are repeated from the log's facts of those. For each task
// only the necessary is kept: when it ended, and the length and digest of its result and of its
// error. Results affect the decision only by their size, so a text of the same length stands in,
// and the fact's result is compared by digest.

// kin is what is kept for few tasks, for decisions that follow from other tasks.
type kin struct {
	needs *wants
	// tail are the messages after its end. Earlier are the ends of earlier lives with the messages
	// after them.
	tail, earlier []uint64
	// said is the error of the task as its parent's end quotes it; zero if not needed.
	said said
	// onNode are its per_node bounds.
	onNode findings.Bounds
	// copied is the digest of the id of which it is a copy.
	copied findings.Digest
	// claimed is the sequence of the birth that the first claim names, if that is not the first one.
	claimed uint64
}

// none tells whether nothing must be kept.
func (k *kin) none() bool {
	return k.needs == nil && len(k.tail) == 0 && len(k.earlier) == 0 && k.said == said{} && len(k.onNode) == 0 && k.copied == 0 && k.claimed == 0
}

// said is a text kept as its length and digest.
type said struct {
	text findings.Digest
	size int
	cut  bool // it is the beginning of a longer text
}

// wants is a [task.Needs] in a third of the memory.
type wants struct {
	rule findings.Word
	of   []want
}

type want struct {
	task       ulid.ULID
	name, when findings.Word
}

func (t *tasks) wants(n *task.Needs) *wants {
	if n == nil {
		return nil
	}
	w := &wants{rule: t.words.Number(n.Rule), of: make([]want, len(n.Of))}
	for i, need := range n.Of {
		key, _ := keyOf(need.Task) // it was checked at submission
		w.of[i] = want{key, t.words.Number(need.Name), t.words.Number(need.When)}
	}
	return w
}

func (t *tasks) needs(w *wants) *task.Needs {
	n := &task.Needs{Rule: t.words.Text(w.rule), Of: make([]task.Need, len(w.of))}
	for i, need := range w.of {
		n.Of[i] = task.Need{Task: task.ID(need.task.String()), Name: t.words.Text(need.name), When: t.words.Text(need.when)}
	}
	return n
}

// related keeps what decisions on other tasks need of this one. K is the task after the record.
func (s *story) related(v *Verifier, k *task.Task, r *events.Record) {
	if string(k.Result) != unchanged {
		s.size = uint32(len(k.Result))
	}
	if end := task.EndOf(k); s.child && k.Message != unchanged {
		s.kin.said = said{}
		if text, cut := birth.FailureWords(end.Message); text != "" {
			s.kin.said = said{v.tasks.digests.Text(text), len(text), cut}
		}
	}
	switch {
	case s.end == 0:
	case k.State.Terminal():
		s.kin.tail = append(s.kin.tail, r.Seq)
	default: // it was reopened
		s.kin.earlier = append(append(s.kin.earlier, s.end), s.kin.tail...)
		s.kin.tail = nil
	}
}

// endAt is the progress of a task at one of its messages.
func (v *Verifier) endAt(id task.ID, seq uint64) (in task.Input, overtaken bool, wrong string) {
	in.Task, in.Seq = id, seq
	o := v.tasks.known(id)
	switch {
	case seq == 0: // it was unknown
	case o == nil:
		return in, false, fmt.Sprintf("there is no message of task %s at %d", id, seq)
	case o.end != 0 && (seq == o.end || slices.Contains(o.kin.tail, seq)):
		in.State, in.Reason = o.now.state, v.tasks.words.Text(o.now.reason)
		if o.now.result != 0 {
			in.Result = filler(o.size)
		}
	case slices.Contains(o.kin.earlier, seq):
		return in, true, ""
	case seq > o.now.seq || o.end != 0 && seq > o.end:
		return in, false, fmt.Sprintf("there is no message of task %s at %d", id, seq)
	default:
		in.State = task.Pending // or any other fact than an end
	}
	return in, false, ""
}

// filler is a JSON value of size bytes.
func filler(size uint32) json.RawMessage {
	if size < 2 {
		return json.RawMessage("7")
	}
	return json.RawMessage(`"` + strings.Repeat("x", int(size)-2) + `"`)
}

// needed repeats the command for a task that follows from the ends of its needs; nil if that cannot
// be done, or if none follows, which is reported.
func (s *story) needed(v *Verifier, r *events.Record) (c task.Command, of []task.Input) {
	if !v.whole() || s.kin.needs == nil || len(s.rivals) > 0 {
		return nil, nil // they may have ended before the range, and each of two births may name others
	}
	needs, ends := v.tasks.needs(s.kin.needs), findings.By(r).Ends
	known := make([]task.Input, len(needs.Of))
	if len(ends) != len(known) {
		v.book.Checked[Decisions]++
		s.found(v, Decisions, []uint64{r.Seq}, "%s follows from the ends of %d tasks, and names %d", r.Fact.Type, len(known), len(ends))
		return nil, nil
	}
	for i := range known {
		in, overtaken, wrong := v.endAt(needs.Of[i].Task, ends[i])
		if wrong != "" {
			v.book.Checked[Decisions]++
			s.found(v, Decisions, []uint64{ends[i], r.Seq}, "%s was decided by an end of what it needs, and %s", r.Fact.Type, wrong)
			return nil, nil
		}
		if overtaken {
			v.book.Overtaken++
			return nil, nil
		}
		known[i] = in
	}
	c, err := needs.Follow(known)
	if c == nil || err != nil {
		v.book.Checked[Decisions]++
		why := "nothing follows from the ends that it names"
		if err != nil {
			why += ": " + err.Error()
		}
		s.found(v, Decisions, []uint64{r.Seq}, "%s, and %s", r.Fact.Type, why)
		return nil, nil
	}
	return c, known
}

// ofNeeds repeats the decision that a task is released, or never will be, by its needs.
func (s *story) ofNeeds(v *Verifier, k *task.Task, r *events.Record) {
	c, known := s.needed(v, r)
	if c == nil {
		return
	}
	free, met := c.(task.Unhold)
	e, freed := r.Fact.Event.(task.Unheld)
	if !met || !freed {
		s.remade(v, k, c, r)
		return
	}
	// Its earlier inputs stay, and are not part of the decision.
	if wrong := v.told(e.Inputs, free.Inputs, known); wrong != "" {
		v.book.Checked[Decisions]++
		s.found(v, Decisions, []uint64{r.Seq}, "%s tells of what it needed: %s", r.Fact.Type, wrong)
		return
	}
	bare, same := *k, *r
	e.Inputs, free.Inputs, bare.Inputs = nil, nil, nil
	same.Fact.Event = e
	s.remade(v, &bare, free, &same)
}

// freed repeats the decision that an offer releases a task.
func (s *story) freed(v *Verifier, k *task.Task, e task.Queued, r *events.Record) {
	opens := e.After == k.Turn && e.After < r.Seq && k.State == task.Held &&
		slices.Contains(k.Holds, task.HoldNeeds) && !slices.Contains(k.Holds, task.HoldSignal)
	if !opens && r.Fact.By == nil {
		return
	}
	c, known := s.needed(v, r)
	if c == nil {
		return
	}
	v.book.Checked[Decisions]++
	free, met := c.(task.Unhold)
	wrong := ""
	if met {
		wrong = v.told(e.Inputs, free.Inputs, known)
	}
	bare := *k
	bare.Inputs, free.Inputs = nil, nil
	offer, ok, _ := task.FreedOffer(bare, free, r.Fact.At)
	if !opens && wrong == "" { // the task has moved on since, as decided
		offer, ok = e, met && e.Reason == free.Reason
	}
	if wrong == "" && !ok {
		wrong = "that hold had to be opened on its chain"
	}
	if wrong == "" {
		was, is := r.Fact, r.Fact
		again := e
		again.Reason, again.Attempt, again.After, again.StartBy, again.EndBy = offer.Reason, offer.Attempt, offer.After, offer.StartBy, offer.EndBy
		again.Inputs, e.Inputs = nil, nil
		was.Event, is.Event, is.By = e, again, bare.DecidedBy(free, offer)
		wrong = v.book.Differ(&was, &is)
	}
	if wrong != "" {
		s.found(v, Decisions, []uint64{r.Seq}, "%s, decided again from what it names, is another one: %s", r.Fact.Type, wrong)
	}
}

// told compares the inputs of a task with the ones it should have.
func (v *Verifier) told(was, is json.RawMessage, known []task.Input) string {
	if v.book.Hides(was) {
		return ""
	}
	var had, has map[string]task.Input
	if json.Unmarshal(is, &has) != nil || json.Unmarshal(was, &had) != nil {
		return "it is no object"
	}
	results := map[task.ID]findings.Digest{}
	for _, in := range known {
		if o := v.tasks.known(in.Task); o != nil {
			results[in.Task] = o.now.result
		}
	}
	for _, name := range slices.Sorted(maps.Keys(has)) {
		a, b := had[name], has[name]
		same := len(a.Result) == 0 // correct if it would not fit
		if len(b.Result) > 0 {
			same = v.tasks.digests.Raw(a.Result) == results[b.Task]
		}
		if a.Result, b.Result = nil, nil; !same || a.Task != b.Task || a.State != b.State || a.Reason != b.Reason {
			return fmt.Sprintf("of %q it is told something else", name)
		}
	}
	return ""
}
