package verify

import (
	"bytes"
	"encoding/json"
	"iter"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/oklog/ulid/v2"

	"millrace/events"
	"millrace/history/verify/findings"
	"millrace/internal/form"
	"millrace/task"
	"millrace/task/job"
	"millrace/task/limit"
	"millrace/task/placement"
	"millrace/task/value"
)

// tasks holds the memory of each task: little for those that can be packed, much for the others,
// which are open.
type tasks struct {
	open   map[task.ID]*story
	packed packedTasks
	// ranged says that the records begin after the beginning of the log.
	ranged bool
	words  findings.Words
	specs  timeouts
	// scratch is the value that forms read and write, to avoid other tasks on the heap.
	scratch task.Task
	buf     []byte
	// now is the task whose fact is being folded, for the same reason. It must not be kept.
	now task.Task
	// firstAt is the sequence of the latest fact that found its task without a state.
	firstAt uint64
	// spare are unused stories, for reuse.
	spare []*story
	// took is the effect of the fact on the attempts of that task.
	took limit.Shift
	// digests stand for values that are only compared.
	digests findings.Digests
	// lately are tasks as they were before the latest offers, of which oldest is the first.
	lately []waited
	oldest int
}

func newTasks(ranged bool) *tasks {
	return &tasks{
		ranged:  ranged,
		open:    map[task.ID]*story{},
		packed:  newPackedTasks(),
		digests: findings.NewDigests(),
		words:   findings.NewWords(),
		specs:   timeouts{index: map[string]uint32{}, known: map[*job.Spec]uint32{}},
	}
}

// timeouts are the timeouts of specs, together with place, limits and the settings that decide on
// attempts: the only parts on which deadlines, decisions and the fold depend. 0 is no spec.
type timeouts struct {
	index map[string]uint32 // by the JSON of these parts
	list  []*job.Spec
	// known are numbers of specs that were seen, at most manySpecs: many facts and rows share one.
	known map[*job.Spec]uint32
}

// manySpecs bounds the remembered specs.
const manySpecs = 1024

// number returns the number of an unmodified spec.
func (w *timeouts) number(spec *job.Spec) uint32 {
	if spec == nil {
		return 0
	}
	n, ok := w.known[spec]
	if !ok {
		n = w.numberOf(spec)
		if len(w.known) >= manySpecs {
			clear(w.known)
		}
		w.known[spec] = n
	}
	return n
}

func (w *timeouts) numberOf(spec *job.Spec) uint32 {
	thin := spec.Ruled()
	if thin == nil {
		thin = &job.Spec{}
	}
	thin.Timeout, thin.Retry, thin.OnRestart, thin.Handler, thin.Signal = spec.Timeout, spec.Retry, spec.OnRestart, spec.Handler, spec.Signal
	thin.Collapse = spec.Collapse
	if spec.Run != nil {
		thin.Run = &job.Run{} // its content affects no decision
	}
	if len(spec.Steps) > 0 || spec.Each != nil {
		thin.Each = &job.Each{} // enough: it has children independent of nodes
	}
	key, _ := json.Marshal(thin) // it came from JSON
	n, ok := w.index[string(key)]
	if !ok {
		w.list = append(w.list, thin)
		n = uint32(len(w.list))
		w.index[string(key)] = n
	}
	return n
}

func (w *timeouts) spec(n uint32) *job.Spec {
	if n == 0 {
		return nil
	}
	return w.list[n-1]
}

// folded is a [task.Task] that keeps in full only the fields on which checks or the fold depend.
// For the rest it has digests, to compare with a row.
type folded struct {
	core
	rest
}

// core are the fields of most ended tasks.
type core struct {
	seq, head, turn, epoch, offer    uint64
	endSeq                           uint64
	submitted, since, started, ended findings.Stamp
	ran                              value.Duration
	work                             findings.Digest // its unchanging content since birth
	message, exit, result, usage     findings.Digest
	spec                             uint32
	route, node, session             findings.Word
	attempt                          int32
	state                            task.State
	offered                          bool
	child                            bool // it has a parent
}

// rest are the fields that few tasks have.
type rest struct {
	due              findings.Stamp
	inputs, children findings.Digest
	holds, reason    findings.Word
	needs            bool
	whole            *whole // of a parent; nil for any other task
	// more is every field without a place here or in core, as [moreForm] writes it; "" for none.
	more string

	others findings.Digest // digest of other births, before a claim
	rivals *[]task.Rival   // the other births; nil for none
}

// moreForm is the form of the fields that are kept unchanged. A field added to a task is part of it
// automatically, so it is folded and compared. It leaves out the fields of [core] and [rest], and
// the unneeded parts of the work, which the digest covers.
var moreForm = form.Of[task.Task](form.Own(), form.Without(
	"id", "seq", "head", "turn", "epoch", "offer", "submitted_at", "since", "started_at", "ended_at", "end_seq", "ran",
	"job", "revision", "labels", "group", "parent", "step", "fair_key", "schedule", "tick", "trigger", "ended_task", "ended", "made_by", "retry_of",
	"message", "exit", "result", "usage", "spec", "route", "node", "session", "attempt", "state", "offered",
	"due", "inputs", "children", "holds", "reason", "needs", "rivals"))

// whole is what the fold of a parent, and the decisions about it, need besides. There are few
// parents.
type whole struct {
	work     task.Work
	children *task.Children
}

// unchanged stands in a task for a value kept as a digest: if it is still there after the fold, the
// value did not change. No JSON gives this text: it is not UTF-8.
const unchanged = "\xffunchanged"

// The stand-ins for values of other types.
var (
	unchangedExit  = new(int)
	unchangedUsage = new(task.Usage)
)

// thin returns the kept part of a task after a fold. Was is the part before it: it has the digests
// for which stand-ins are in the task.
func (t *tasks) thin(k *task.Task, was *folded) folded {
	f := *was
	f.seq, f.head, f.turn, f.epoch, f.offer, f.endSeq = k.Seq, k.Head, k.Turn, k.Epoch, k.Offer, k.EndSeq
	f.submitted, f.due, f.since = findings.StampOf(k.SubmittedAt), findings.StampOf(k.Due), findings.StampOf(k.Since)
	f.started, f.ended, f.ran = findings.StampOf(k.StartedAt), findings.StampOf(k.EndedAt), k.Ran
	f.attempt, f.state, f.offered, f.needs = int32(k.Attempt), k.State, k.Offered, k.Needs != nil
	f.route, f.node, f.session = t.words.Number(string(k.Route)), t.words.Number(k.Node), t.words.Number(k.Session)
	f.holds, f.reason = t.words.Number(strings.Join(k.Holds, ",")), t.words.Number(k.Reason)
	f.more = t.more(k, f.more)
	if len(k.Rivals) == 0 {
		f.others, f.rivals = 0, nil
	} else if f.rivals == nil || len(*f.rivals) != len(k.Rivals) {
		f.others, f.rivals = t.digests.Value(k.Rivals), findings.Own(&k.Rivals)
	}
	if k.Job != unchanged && (was.whole == nil || k.Spec != was.whole.work.Spec) {
		f.spec, f.work, f.child = t.specs.number(k.Spec), t.digests.Work(k), k.Parent != ""
	}
	if k.Message != unchanged {
		f.message = t.digests.Text(k.Message)
	}
	if string(k.Inputs) != unchanged {
		f.inputs = t.digests.Raw(k.Inputs)
	}
	if string(k.Result) != unchanged {
		f.result = t.digests.Raw(k.Result)
	}
	t.thinPointers(k, &f)
	return f
}

// more returns the output of [moreForm] for a task, given the output before.
func (t *tasks) more(k *task.Task, was string) string {
	if t.scratch = *k; k.Spec == nil || k.Spec.Collapse == nil { // else they change
		t.scratch.Params = nil
	}
	text, err := moreForm.Append(t.buf[:0], &t.scratch)
	t.buf = text[:0]
	switch {
	case err != nil || string(text) == "{}":
		return ""
	case string(text) == was:
		return was
	}
	return string(text)
}

// thinPointers keeps the targets of a task's pointers.
func (t *tasks) thinPointers(k *task.Task, f *folded) {
	if k.Exit != unchangedExit {
		if f.exit = 0; k.Exit != nil {
			f.exit = t.digests.Value(*k.Exit)
		}
	}
	if k.Usage != unchangedUsage {
		if f.usage = 0; k.Usage != nil {
			f.usage = t.digests.Value(k.Usage)
		}
	}
	if !k.Spec.Parental() {
		if f.whole, f.children = nil, 0; k.Children != nil { // which only a row can have
			f.children = t.digests.Value(k.Children)
		}
		return
	}
	w := f.whole
	same := w != nil && k.Spec == w.work.Spec // it is not born again
	if same && k.Children == w.children && bytes.Equal(k.Inputs, w.work.Inputs) {
		return
	}
	f.whole = &whole{}
	if f.children = 0; k.Children != nil {
		f.whole.children, f.children = findings.Own(k.Children), t.digests.Value(k.Children)
	}
	if same {
		f.whole.work = w.work
		f.whole.work.Inputs = bytes.Clone(k.Inputs)
	} else {
		f.whole.work = *findings.Own(&k.Work)
	}
}

// task is the reverse of thin, with stand-ins for digests.
func (t *tasks) task(id task.ID, f *folded) task.Task {
	var holds []string
	if f.holds != 0 {
		holds = strings.Split(t.words.Text(f.holds), ",")
	}
	k := task.Task{
		ID:          id,
		State:       f.state,
		Seq:         f.seq,
		Head:        f.head,
		Turn:        f.turn,
		Epoch:       f.epoch,
		Offer:       f.offer,
		EndSeq:      f.endSeq,
		Offered:     f.offered,
		Attempt:     int(f.attempt),
		SubmittedAt: f.submitted.Time(),
		Due:         f.due.Time(),
		Since:       f.since.Time(),
		StartedAt:   f.started.Time(),
		EndedAt:     f.ended.Time(),
		Ran:         f.ran,
		Node:        t.words.Text(f.node),
		Session:     t.words.Text(f.session),
		Reason:      t.words.Text(f.reason),
	}
	if f.whole != nil {
		k.Work, k.Children = f.whole.work, f.whole.children
	} else if k.Spec = t.specs.spec(f.spec); f.needs {
		k.Needs = &task.Needs{} // which ones does not matter here
	}
	k.Route, k.Holds = placement.Route(t.words.Text(f.route)), holds
	k.StartBy, k.EndBy, k.Asked = time.Time{}, time.Time{}, nil // a parent's birth may have had others
	if f.more != "" {
		t.scratch = k
		_ = moreForm.Read([]byte(f.more), &t.scratch) // we have written it
		k = t.scratch
	}
	if f.rivals != nil {
		k.Rivals = *f.rivals
	}
	t.stand(&k, f)
	return k
}

// stand puts stand-ins where f has digests. The work of a parent is kept in full: decisions about
// its children read it.
func (t *tasks) stand(k *task.Task, f *folded) {
	if f.work != 0 && f.whole == nil {
		k.Job = unchanged
	}
	if f.child && k.Parent == "" {
		k.Parent = unchanged
	}
	if f.message != 0 {
		k.Message = unchanged
	}
	if f.inputs != 0 && f.whole == nil {
		k.Inputs = json.RawMessage(unchanged)
	}
	if f.result != 0 {
		k.Result = json.RawMessage(unchanged)
	}
	if f.exit != 0 {
		k.Exit = unchangedExit
	}
	if f.usage != 0 {
		k.Usage = unchangedUsage
	}
}

// take returns the story of a task; put must follow.
func (t *tasks) take(id task.ID) *story {
	if s, ok := t.open[id]; ok {
		return s
	}
	s := t.blank()
	if s.id = task.ID(strings.Clone(string(id))); t.packed.unpack(s) {
		return s
	}
	if t.ranged {
		s.old, s.cut, s.attempt = true, true, unknown
	}
	return s
}

// mostSpare bounds the unused stories. A burst of a million leaves garbage instead, which would
// otherwise be scanned at each collection.
const mostSpare = 1 << 10

// blank returns an empty story, in reused memory.
func (t *tasks) blank() *story {
	n := len(t.spare)
	if n == 0 {
		return &story{}
	}
	s := t.spare[n-1]
	t.spare = t.spare[:n-1]
	*s = story{offers: s.offers[:0]}
	return s
}

// put keeps a story, or packs it if it can. In that case the story must not be used any more.
func (t *tasks) put(s *story) {
	switch {
	case s.spot.fits && s.packs():
		if s.kept {
			delete(t.open, s.id)
		}
		t.packed.put(s)
		if len(t.spare) < mostSpare {
			t.spare = append(t.spare, s)
		}
	case !s.kept:
		t.open[s.id], s.kept = s, true
		t.packed.drop(s)
	}
}

// known returns the story of a task, to read; nil if there is none.
func (t *tasks) known(id task.ID) *story {
	if s, ok := t.open[id]; ok {
		return s
	}
	if s := (&story{id: id}); t.packed.unpack(s) {
		return s
	}
	return nil
}

// unended iterates over the stories of all tasks that have not ended, in the order of their ids.
// To keep what the caller changes in a story, it must put it.
func (t *tasks) unended() iter.Seq2[task.ID, *story] {
	ids := slices.AppendSeq(make([]task.ID, 0, len(t.open)), maps.Keys(t.open))
	for key, e := range t.packed.all() {
		if e.end == 0 {
			ids = append(ids, task.ID(key.String()))
		}
	}
	slices.Sort(ids)
	return func(yield func(task.ID, *story) bool) {
		for _, id := range ids {
			if !yield(id, t.known(id)) {
				return
			}
		}
	}
}

// keyOf packs the id of a task; false if it is not a ULID in canonical spelling.
func keyOf(id task.ID) (ulid.ULID, bool) {
	u, err := ulid.ParseStrict(string(id))
	return u, err == nil && u.String() == string(id)
}

// fold adds a record by the rules of package task.
func (s *story) fold(v *Verifier, r *events.Record) {
	t := v.tasks
	k := &t.now
	*k = t.task(s.id, &s.now)
	if c, ok := r.Fact.Event.(task.Carried); ok && r.Err == nil {
		v.carries(s, c, r)
	}
	if _, kept := r.Fact.Event.(task.Kept); kept && r.Err == nil {
		k.Carry = s.keeps(v, k, r)
	}
	c := k.Carry
	s.opens(v, k, r)
	if v.book.Asked(Decisions) && !r.Retold() {
		s.overdue(v, k, r)
		s.decided(v, s.asks(v, k), r)
		if r.Kind == events.KindChain {
			s.tripped(v, k, r)
		} else {
			t.offer(s.id, &s.now, r.Seq)
		}
	}
	if k.State == task.Unknown {
		t.firstAt = r.Seq
	}
	if _, parks := r.Fact.Event.(task.AttemptParked); parks && s.kin.needs != nil {
		k.Needs = t.needs(s.kin.needs) // the fold keeps them
	}
	t.took = k.Shift(r.Task())
	s.related(v, k, r)
	t.forgive(k, &s.now)
	s.now = t.thin(k, &s.now)
	if c != nil && (!s.born || s.old || s.cut) && k.State != task.Unknown {
		s.resumes(v, c)
		s.old = c.After > c.Fold.Seq // an offer came since the task was read: it is carried once more
		s.cut = s.old
	}
}

// standing tracks the state of tasks before their limits, and the requested delays. The story is
// that after the record.
func (s *story) standing(v *Verifier, r *events.Record) {
	if !v.book.Asked(Decisions) || !v.whole() {
		return
	}
	if e, ok := r.Fact.Event.(task.AttemptFailed); ok && r.Err == nil && e.RetryAfter > 0 {
		k := v.tasks.task(s.id, &s.now)
		v.lines.Pause(s.limit, k.RateQueue(), r.Fact.At.Add(e.RetryAfter.Std()))
	}
	if v.lines.Follows(s.limit) {
		k := v.tasks.task(s.id, &s.now)
		v.lines.Stands(&k, s.limit, v.tasks.took, r.Seq)
	}
}
