package projections

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"millrace/events"
	"millrace/projections/view"
	"millrace/task"
	"millrace/task/job"
	"millrace/task/node"
	"millrace/task/placement"
	"millrace/task/value"
)

var noon = time.Date(2026, 8, 1, 12, 0, 0, 123456789, time.UTC)

// history makes random records of a few tasks and nodes: mostly plausible ones, and sometimes any
// that a log can hold.
type history struct {
	*rand.Rand
	tasks   []task.ID
	records []events.Record

	// The log has forgotten the first cut records, and these tasks.
	cut  int
	gone map[task.ID]bool
}

// remember drops from a fold what the log has forgotten.
func (h *history) remember(m *view.Memory) {
	m.Forget(func(t *task.Task) bool { return h.gone[t.ID] })
}

// Messages is that of the log that has forgotten something. Of the tasks that live on it has all facts.
func (h *history) Messages(ctx context.Context, seqs []uint64) ([]events.Record, error) {
	return view.Slice(h.records[h.cut:]).Messages(ctx, seqs)
}

func (h *history) About(ctx context.Context, ref view.Ref) ([]events.Record, error) {
	return view.Slice(h.records).About(ctx, ref)
}

func newHistory(seed uint64, tasks int) *history {
	h := &history{Rand: rand.New(rand.NewPCG(seed, 1))}
	for i := range tasks {
		h.tasks = append(h.tasks, task.ID(ulidAt(noon.Add(time.Duration(i)*time.Minute), i)))
	}
	return h
}

func (h *history) grow(n int) {
	for range n {
		h.add()
	}
}

func (h *history) add() {
	seq := uint64(1 + len(h.records)*2 + h.IntN(2))
	r := events.Record{Seq: seq, Place: "place", Raw: []byte(`{"raw":true}`),
		Fact: events.Fact{ID: fmt.Sprintf("fact-%d-%d", seq, h.Uint64()), At: h.time(), Actor: h.text(), Corr: h.text(), Task: h.tasks[h.IntN(len(h.tasks))]}}
	switch h.IntN(20) {
	case 0:
		r.Kind, r.Err, r.Fact = events.KindChain, errors.New("no JSON: \xff"), events.Fact{Task: r.Fact.Task}
	case 1:
		r.Kind, r.Fact.Type = events.KindChain, "task.praised"
	case 2:
		r.Kind, r.Fact.Event = events.KindOther, h.event(r.Fact.Task)
	case 3:
		r.Kind, r.Fact.Task = events.KindChain, ""
	case 4, 5:
		r.Fact.Actor = h.valid()
		r.Kind, r.Fact.Task, r.Fact.Node, r.Fact.Event = events.KindNode, "", node.ID(h.valid()+"n"), h.nodeEvent()
	default:
		r.Fact.Event = h.event(r.Fact.Task)
		r.Kind = events.KindChain
		switch r.Fact.Event.(type) {
		case task.Submitted, task.Queued, task.Due:
			r.Kind = []events.Kind{events.KindOffer, events.KindHold, events.KindOffer, events.KindChain}[h.IntN(4)]
		}
		if t := events.FoldTask(r.Fact.Task, h.of(r.Fact.Task)); t.State != task.Unknown {
			if _, again := r.Fact.Event.(task.Submitted); again {
				r.Fact.At = t.SubmittedAt
			}
		}
	}
	r.Fact.Type = max(r.Fact.Type, events.TypeOf(r.Fact.Event))
	h.records = append(h.records, r)
}

// again is the work of another birth, or offer, of a task. Of two jobs, parents, times or ticks it is only by forgers,
// and then which is the latest task of a job or schedule depends on what is still known.
func (h *history) again(t *task.Task) task.Work {
	w := h.work()
	if t.State != task.Unknown {
		w.Job, w.Parent, w.Schedule, w.Tick = t.Job, t.Parent, t.Schedule, t.Tick
	}
	return w
}

func (h *history) event(id task.ID) task.Event {
	t := events.FoldTask(id, h.of(id))
	epoch := t.Epoch
	if h.IntN(8) == 0 {
		epoch = h.Uint64N(20)
	}
	if t.State == task.Unknown && h.IntN(4) > 0 {
		return task.Submitted{Work: h.work(), Due: h.sometimes()}
	}
	switch h.IntN(16) {
	case 15:
		return task.Due{After: t.Turn, Route: t.Route, Due: t.Due}
	case 0:
		return task.Submitted{Work: h.again(&t), Due: h.sometimes()}
	case 1, 2:
		return task.Queued{Work: h.again(&t), Attempt: t.Attempt + 1, After: t.Turn, Reason: h.text(), Due: h.sometimes(), Rated: uint64(h.IntN(3))}
	case 3, 4, 5:
		e := task.AttemptStarted{Attempt: t.Attempt + 1, Node: h.text(), Session: h.text(), Offer: t.Seq}
		if h.IntN(3) == 0 {
			e.TookOver = &task.TookOver{Epoch: epoch}
		}
		return e
	case 6:
		return task.AttemptFinished{Epoch: epoch, Exit: h.exit(), Result: h.json(), Usage: h.usage(), Drawn: h.steps()}
	case 7:
		e := task.AttemptFailed{Epoch: epoch, Class: value.Exit, Exit: h.exit(), Message: h.text(), Usage: h.usage(), Drawn: h.steps()}
		if h.IntN(2) == 0 {
			e.Retry = &task.RetryPlan{Attempt: 2, Due: h.time()}
		}
		return e
	case 8:
		return task.AttemptReleased{Epoch: epoch, Reason: h.text(), Drawn: h.steps()}
	case 9:
		return task.AttemptLost{Epoch: epoch, Reason: h.text()}
	case 10:
		return task.CancelRequested{Reason: h.text(), Deadline: h.time()}
	case 11:
		return task.CancelConfirmed{Reason: h.text(), Epoch: epoch, Exit: h.exit()}
	case 12:
		return task.GivenUp{Reason: value.Lost, Detail: h.text()}
	case 13:
		return task.Dismissed{Reason: h.text()}
	}
	switch h.IntN(14) {
	case 13:
		return task.Collapsed{Of: task.ID(h.valid()), Params: h.json(), Due: h.time()}
	case 11:
		return task.AttemptStepped{Attempt: t.Attempt, Epoch: epoch, Steps: h.steps()}
	case 12:
		kind := []string{task.StepDo, task.StepSleep, task.StepAwait, task.StepCall}[h.IntN(4)]
		e := task.AttemptParked{Attempt: t.Attempt, Epoch: epoch, Steps: h.steps(), Park: task.Park{Step: h.text(), Kind: kind, Until: h.sometimes()}, Usage: h.usage()}
		if kind == task.StepCall {
			e.Park.Of = []task.Need{{Task: "01JNA0CH11D000000000000000", Name: "0"}}
		}
		return e
	case 5, 6:
		return task.AttemptExtended{Attempt: t.Attempt, Epoch: epoch, Until: h.time()}
	case 7:
		return task.AttemptAdopted{Attempt: t.Attempt, Epoch: epoch, Node: t.Node, Session: h.text(), PID: 7, Gap: 5}
	case 8:
		to := placement.NodeRoute("n1", placement.DefaultPriority)
		return task.Reassigned{From: t.Route, To: to, Reason: h.text(), Until: h.sometimes()}
	case 9:
		e := task.Expanded{Children: task.Children{AtSeq: h.Uint64N(9), Names: []string{h.valid() + "a", "b"}}}
		if h.IntN(2) == 0 {
			e.Spares = []string{"c"}
		}
		return e
	case 10:
		return task.Concluded{State: task.Finished, Message: h.text(), Result: h.json()}
	case 3:
		return task.Throttled{Limit: h.text()}
	case 2:
		return task.Postponed{Reason: value.Breaker, Detail: h.text(), Due: h.time()}
	case 0:
		return task.AttemptLate{Epoch: epoch, Said: h.json()}
	case 1:
		return task.Unheld{Hold: task.HoldNeeds, Reason: h.text()}
	}
	return task.Reopened{Reason: h.text()}
}

func (h *history) steps() []task.Step {
	s := task.Step{Name: h.text(), Kind: task.StepDo, Result: h.json(), At: h.time(), Took: 5}
	if h.IntN(3) == 0 {
		s = task.Step{Name: h.text(), Kind: task.StepDo, Error: h.text(), Tries: 1, Open: h.IntN(2) == 0, At: h.time()}
	}
	return []task.Step{s}
}

func (h *history) nodeEvent() node.Event {
	session := fmt.Sprint(h.IntN(2))
	switch h.IntN(10) {
	case 8:
		value := h.valid()
		return node.Labelled{Labels: map[string]*string{"zone": &value, "gpu": nil}, Reason: h.valid()}
	case 0:
		return node.Registered{Session: session, Profile: node.Profile{Host: h.valid(), PID: h.IntN(9), Labels: h.labels(), Queues: []string{"a", "b"}, Slots: 4, Probes: true}}
	case 1:
		return node.WentOnline{Session: session, Reason: h.valid(), Connection: uint64(h.IntN(3))}
	case 2:
		return node.Drained{Session: session, Reason: h.valid()}
	case 3:
		return node.BecameReady{Session: session, Reason: h.valid(), Kept: h.IntN(3), Low: uint64(h.IntN(9)), Took: 5}
	case 4:
		return node.Changed{Order: node.Order(h.IntN(3)), Reason: h.valid(), Grace: value.Duration(time.Second)}
	case 5:
		return node.WasQuarantined{Reason: h.valid(), Until: h.time()}
	case 6:
		return node.WasReleased{Reason: h.valid()}
	case 7:
		return node.WasRetired{Reason: h.valid()}
	}
	return node.WentOffline{Session: session, Reason: h.valid()}
}

// valid is a text as it is after decoding.
func (h *history) valid() string { return strings.ToValidUTF8(h.text(), "?") }

var testSpecs = []*job.Spec{
	nil,
	{Handler: "noop"},
	{Run: &job.Run{Argv: []string{"echo", "<Hello>", `"world"`}}, Timeout: job.Timeout{Run: value.Duration(time.Minute), Pending: value.Duration(time.Hour)}},
	{Handler: "noop", Place: job.Place{Mode: job.PlaceAll}},
	{Run: &job.Run{Shell: "make all\n", Env: map[string]string{"A": "b"}}, Retry: job.Retry{Max: 2, Jitter: 0.5}},
}

func (h *history) work() task.Work {
	return task.Work{
		Job: []string{"", "crawl", "index"}[h.IntN(3)], Revision: h.Uint64N(3), Spec: testSpecs[h.IntN(len(testSpecs))],
		Params: h.json(), Labels: h.labels(), Route: placement.QueueRoute([]string{"default", "gpu", "night", "~selector"}[h.IntN(4)], 1+h.IntN(10)),
		StartBy: h.sometimes(), Group: h.text(), Parent: task.ID(h.text()), Step: h.text(),
	}
}

func (h *history) labels() map[string]string {
	switch h.IntN(3) {
	case 0:
		return map[string]string{"team": "a"}
	case 1:
		// Decoding has made them valid.
		return map[string]string{"team": "b", strings.ToValidUTF8(h.text(), "?"): strings.ToValidUTF8(h.text(), "?")}
	}
	return nil
}

func (h *history) text() string {
	return []string{"", "plain", "Quoted \"text\"", "back\\slash\n\t\x00\x1f", "größe 日本", "bad \xff\xfe utf8", "\u2028<&>", "50%_done"}[h.IntN(8)]
}

func (h *history) json() json.RawMessage {
	return []json.RawMessage{nil, json.RawMessage(`{"a": [1, "}"]}`), json.RawMessage(`null`)}[h.IntN(3)]
}

func (h *history) exit() *int {
	if h.IntN(2) == 0 {
		return nil
	}
	code := h.IntN(3) - 1
	return &code
}

func (h *history) usage() *task.Usage {
	if h.IntN(2) == 0 {
		return nil
	}
	u := &task.Usage{UserTime: value.Duration(h.Int64()), SystemTime: 1, MaxMemory: h.Int64(), Read: int64(h.IntN(3)), Written: h.Int64()}
	if h.IntN(2) == 0 {
		u.Signal, u.Limits, u.Refused = h.text(), h.text(), h.IntN(4)
		u.Setup, u.Run, u.Stop = value.Duration(h.Int64()), value.Duration(h.Int64()), value.Duration(h.IntN(2))
	}
	return u
}

func (h *history) time() time.Time {
	switch h.IntN(20) {
	case 0:
		return time.Date(9999, 12, 31, 23, 59, 59, 999999999, time.UTC)
	case 1:
		return time.Date(1, 1, 2, 0, 0, 0, 1, time.UTC)
	}
	return noon.Add(time.Duration(h.Int64N(int64(48 * time.Hour))))
}

func (h *history) sometimes() time.Time {
	if h.IntN(2) == 0 {
		return time.Time{}
	}
	return h.time()
}

// of is the history of a task in the log.
func (h *history) of(id task.ID) []events.Record {
	var all []events.Record
	for _, r := range h.records {
		if r.Fact.Task == id && r.Kind != events.KindOther && r.Kind != events.KindNode {
			all = append(all, r)
		}
	}
	return all
}

// folded is the fold of each task with messages.
func (h *history) folded() map[task.ID]task.Task {
	all := map[task.ID]task.Task{}
	for _, id := range h.tasks {
		if records := h.of(id); len(records) > 0 {
			all[id] = events.FoldTask(id, records)
		}
	}
	return all
}

func (h *history) foldedNodes() map[node.ID]node.Node {
	byNode := map[node.ID][]events.Record{}
	for _, r := range h.records {
		if r.Kind == events.KindNode {
			byNode[r.Fact.Node] = append(byNode[r.Fact.Node], r)
		}
	}
	all := map[node.ID]node.Node{}
	for id, records := range byNode {
		all[id] = events.FoldNode(id, records)
	}
	return all
}
