package client

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"millrace/events"
	"millrace/events/jet"
	"millrace/events/jet/definitions"
	"millrace/events/jet/outputs"
	"millrace/events/jet/rights"
	"millrace/internal/files"
	"millrace/projections/view"
	"millrace/task"
	"millrace/task/birth"
	"millrace/task/node"
	"millrace/task/output"
	"millrace/task/schedule"
	"millrace/task/value"
)

// A viewer and a submitter may not read the log. Their client asks the service for everything. What
// the service does not do for them is refused with a [*rights.Lacking].

// Attend returns a client of the service for a user who may not read the log, which denied says: the
// error of [Target.Connect]. It is returned as it is if the user is neither a viewer nor a submitter.
func (t Target) Attend(ctx context.Context, denied error) (*Client, error) {
	if !jet.Unread(denied) {
		return nil, denied
	}
	nc, err := jet.Connect(t.Options)
	if err != nil {
		return nil, err
	}
	store, err := jet.Attended(nc, jet.WithClock(t.Options.Clock))
	if err != nil {
		nc.Close()
		return nil, err
	}
	c := New(store, store.Caller())
	c.own = nc
	for _, of := range []struct {
		role rights.Role
		asks rights.Verb
	}{{rights.Viewer, rights.BreakerGet}, {rights.Submitter, rights.ServerHealth}} {
		var answer json.RawMessage
		switch err := store.Ask(ctx, of.asks, struct{}{}, &answer); {
		case jet.Refused(err):
		case err != nil && ctx.Err() != nil:
			c.Close()
			return nil, err
		default: // whatever it answers
			c.role = of.role
			return c, nil
		}
	}
	c.Close()
	return nil, denied
}

// Role is the role of a user who may not read the log; "" for one who may.
func (c *Client) Role() rights.Role { return c.role }

// May returns a [*rights.Lacking] if the user may not use a verb, not even for tasks of its own.
func (c *Client) May(v rights.Verb) error {
	if c.role == "" || c.role.May(v) || c.role.May(v.Own()) {
		return nil
	}
	return &rights.Lacking{User: c.store.Caller(), Role: c.role, Verb: v}
}

// ask sends a request to the service.
func (c *Client) ask(ctx context.Context, verb rights.Verb, request, answer any) error {
	if err := c.May(verb); err != nil {
		return err
	}
	if c.role != "" && !c.role.May(verb) {
		verb = verb.Own()
	}
	if c.alone != nil {
		return c.alone(ctx, verb, request, answer)
	}
	return c.store.Ask(ctx, verb, request, answer)
}

// toldOf is the error of a request about one thing; unknown if there is none.
func toldOf(err error, what string, unknown error) error {
	if refused, ok := errors.AsType[*jet.ServiceError](err); ok && refused.Code == "404" {
		return fmt.Errorf("%s: %w", what, unknown)
	}
	return err
}

// idOf names the task of a request.
type idOf struct {
	ID task.ID `json:"id"`
}

// load reads a task as it is now.
func (c *Client) load(ctx context.Context, id task.ID) (t task.Task, err error) {
	return c.loadOn(ctx, id, &events.KnownTask{})
}

// loadOn is load for a task that is read again and again.
func (c *Client) loadOn(ctx context.Context, id task.ID, known *events.KnownTask) (t task.Task, err error) {
	if c.role == "" {
		return c.rec.UpdateTask(ctx, id, known)
	}
	err = c.ask(ctx, rights.TaskGet, idOf{id}, &t)
	return t, toldOf(err, "task "+string(id), task.ErrUnknown)
}

// Get implements [view.View].
func (p Present) Get(ctx context.Context, ref view.Ref) (view.Item, error) {
	if p.c.role == "" || ref.Kind != view.Tasks {
		return p.World.Get(ctx, ref)
	}
	t, err := p.c.load(ctx, task.ID(ref.ID))
	return view.Item{Task: &t}, err
}

// Log reads the facts about single things, and messages by their sequences.
type Log interface {
	// About is a [view.Facts].
	About(ctx context.Context, ref view.Ref) ([]events.Record, error)
	// Messages returns the messages that exist, in no particular order.
	Messages(ctx context.Context, seqs []uint64) ([]events.Record, error)
}

// Log returns where the client reads facts.
func (c *Client) Log() Log {
	if c.role == "" {
		return facts{c.store}
	}
	return asked{c}
}

// asked are the facts of the log as the service tells them.
type asked struct{ c *Client }

// factsRequest chooses facts of the log.
type factsRequest struct {
	From  uint64 `json:"from,omitempty"`
	Limit int    `json:"limit"`
	view.FactFilter
}

// factsPage is a page of them.
type factsPage struct {
	Facts []ShownFact `json:"facts"`
	Next  uint64      `json:"next"`
	Last  uint64      `json:"last"`
}

// factsAtOnce is how many facts one request asks for.
const factsAtOnce = 500

// each passes facts to each, in the order of the log.
func (a asked) each(ctx context.Context, r factsRequest, each func(*events.Record) error) error {
	r.Limit = cmp.Or(r.Limit, factsAtOnce)
	for {
		var page factsPage
		if err := a.c.ask(ctx, rights.EventList, r, &page); err != nil {
			return err
		}
		for i := range page.Facts {
			is := recordOf(&page.Facts[i])
			if err := each(&is); err != nil {
				return err
			}
		}
		if r.From = page.Next; page.Next == 0 {
			return nil
		}
	}
}

// recordOf is the record of a fact that [ShowFact] has shown.
func recordOf(f *ShownFact) events.Record {
	raw := []byte(f.Fact)
	if len(raw) == 0 {
		raw = []byte(f.Raw)
	}
	r := jet.RecordAt(f.Subject, f.Seq, f.Stored, raw)
	if f.Error != "" && r.Err == nil {
		r.Err = errors.New(f.Error)
	}
	return r
}

// Types of the facts about things of a kind.
var typesOf = map[view.Kind][]string{
	view.Nodes:       {"node"},
	view.Queues:      {"queue"},
	view.Definitions: {string(events.DefinitionApplied), string(events.DefinitionRemoved), string(events.SchedulePaused), string(events.ScheduleResumed)},
	view.Breakers:    {"breaker"},
	view.Decisions:   {string(events.ScheduleAdmitted), string(events.ScheduleSkipped), string(events.ScheduleQueued)},
}

// About implements [Log].
func (a asked) About(ctx context.Context, ref view.Ref) (all []events.Record, err error) {
	r := factsRequest{FactFilter: view.FactFilter{Types: typesOf[ref.Kind]}}
	wanted := func(is *events.Record) bool { return view.RefOf(is) == ref }
	switch ref.Kind {
	case view.Tasks:
		r.Task = task.ID(ref.ID)
	case view.Nodes:
		r.Node = ref.ID
	case view.Queues:
		r.Queue = ref.ID
	case view.Decisions:
		name, tick, err := view.TickOf(ref)
		if err != nil {
			return nil, err
		}
		wanted = func(is *events.Record) bool { return is.Fact.Schedule == name && schedule.Decides(is.Fact.Event, tick) }
	}
	err = a.each(ctx, r, func(is *events.Record) error {
		if wanted(is) {
			all = append(all, *is)
		}
		return nil
	})
	return all, err
}

// Messages implements [Log].
func (a asked) Messages(ctx context.Context, seqs []uint64) (all []events.Record, err error) {
	for _, seq := range seqs {
		r, found, err := a.first(ctx, seq)
		if err != nil {
			return nil, err
		}
		if found && r.Seq == seq {
			all = append(all, r)
		}
	}
	return all, nil
}

// errFound ends a reading.
var errFound = errors.New("that is it")

// first returns the first message from a sequence on.
func (a asked) first(ctx context.Context, from uint64) (r events.Record, found bool, err error) {
	err = a.each(ctx, factsRequest{From: from, Limit: 1}, func(is *events.Record) error {
		r, found = *is, true
		return errFound
	})
	if errors.Is(err, errFound) {
		err = nil
	}
	return r, found, err
}

// end is the sequence of the last message of the log.
func (a asked) end(ctx context.Context) (uint64, error) {
	var page factsPage
	err := a.c.ask(ctx, rights.EventList, factsRequest{From: 1 << 62, Limit: 1}, &page)
	return page.Last, err
}

// last returns the last message that is not after a place, by bisection; false if there is none.
func (a asked) last(ctx context.Context, end uint64, after func(*events.Record) bool) (last events.Record, found bool, err error) {
	for low, high := uint64(1), end; low <= high; {
		middle := low + (high-low)/2
		r, there, err := a.first(ctx, middle)
		switch {
		case err != nil:
			return last, false, err
		case !there || after(&r):
			high = middle - 1
		default:
			last, found, low = r, true, r.Seq+1
		}
	}
	return last, found, nil
}

// Follow reads the log from a sequence on, without end; see [events.Follower].
func (c *Client) Follow(ctx context.Context, from uint64) (events.Feed, error) {
	if c.role == "" {
		return c.store.Follow(ctx, from)
	}
	return &askedFeed{asked{c}, max(from, 1)}, c.May(rights.EventList)
}

// askedFeed asks the service for news of the log again and again.
type askedFeed struct {
	asked
	next uint64
}

// askAgain is how often a client that cannot be told of news asks for them.
const askAgain = 500 * time.Millisecond

// Next implements [events.Feed].
func (f *askedFeed) Next(ctx context.Context) ([]events.Record, error) {
	for {
		var page factsPage
		if err := f.c.ask(ctx, rights.EventList, factsRequest{From: f.next, Limit: factsAtOnce}, &page); err != nil {
			return nil, err
		}
		if len(page.Facts) > 0 {
			all := make([]events.Record, len(page.Facts))
			for i := range all {
				all[i] = recordOf(&page.Facts[i])
			}
			f.next = all[len(all)-1].Seq + 1
			return all, nil
		}
		if !pause(ctx, askAgain) {
			return nil, ctx.Err()
		}
	}
}

// Close implements [events.Feed].
func (f *askedFeed) Close() {}

// pause waits; false if ctx ends.
func pause(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}

// askedModel is the service's read model, with definitions as their facts make them.
type askedModel struct {
	view.Model
	asked
}

// List implements [view.Model].
func (m askedModel) List(ctx context.Context, q view.Query) (page view.Page, err error) {
	if q.Kind != view.Definitions {
		return m.Model.List(ctx, q)
	}
	of := map[task.Def][]events.Record{}
	err = m.each(ctx, factsRequest{FactFilter: view.FactFilter{Types: typesOf[view.Definitions]}}, func(r *events.Record) error {
		if def := r.Fact.Def; def != "" && (q.Of == "" || def.Kind() == q.Of) {
			of[def] = append(of[def], *r)
		}
		page.Point.Seq = r.Seq
		return nil
	})
	page.Definitions = map[task.Def]task.Definition{}
	for def, records := range of {
		page.Definitions[def] = events.FoldDefinition(records)
	}
	return page, err
}

// definedAt returns a revision of a definition, the present one for 0.
func definedAt[D any](ctx context.Context, c *Client, kind, name string, revision uint64, read func(string, task.Definition) (D, error)) (is D, err error) {
	records, err := c.Log().About(ctx, view.Definition(task.Named(kind, name)))
	if err != nil {
		return is, err
	}
	if revision > 0 {
		n := len(records)
		for n > 0 && events.FoldDefinition(records[:n]).Revision != revision {
			n--
		}
		records = records[:n]
	}
	return read(name, events.FoldDefinition(records))
}

// beats are the heartbeats of nodes as the service tells them.
func (c *Client) beats(ctx context.Context) (map[node.ID]node.Heartbeat, error) {
	page, err := c.Nodes(ctx, NodeListRequest{})
	all := map[node.ID]node.Heartbeat{}
	for i := range page.Nodes {
		if n := &page.Nodes[i]; !n.LastBeat.IsZero() {
			all[n.ID] = node.Heartbeat{Session: n.Session, At: n.LastBeat, Machine: n.Machine}
		}
	}
	return all, err
}

// AskWhy asks the service why a task is where it is, for a moment of the past or, for "", the present.
// The answer lacks its decisive records, which it has as facts.
func (c *Client) AskWhy(ctx context.Context, id task.ID, at string, answer any) error {
	err := c.ask(ctx, rights.TaskWhy, struct {
		ID task.ID `json:"id"`
		At string  `json:"at,omitempty"`
	}{id, at}, answer)
	return toldOf(err, "task "+string(id), task.ErrUnknown)
}

// RecordsOfFacts are the records of facts that [ShowFacts] has shown.
func RecordsOfFacts(shown []ShownFact) []events.Record {
	all := make([]events.Record, len(shown))
	for i := range shown {
		all[i] = recordOf(&shown[i])
	}
	return all
}

// watchAsked is [Client.Watch] by the service, which answers when the task has ended.
func (c *Client) watchAsked(ctx context.Context, id task.ID, changed func(task.Task)) (task.Task, error) {
	t, err := c.load(ctx, id)
	for err == nil {
		if changed != nil {
			changed(t)
		}
		var is struct {
			Task task.Task `json:"task"`
			Met  bool      `json:"met"`
		}
		if err = c.ask(ctx, rights.TaskWait, idOf{id}, &is); err == nil {
			if t = is.Task; is.Met {
				return t, nil
			}
		}
	}
	if ctx.Err() != nil {
		err = ctx.Err()
	}
	return t, err
}

// saidBatch is what was stored in one message of a task's output.
type saidBatch[T any] struct {
	Seq uint64 `json:"seq"`
	Of  T      `json:"of"`
}

// spoken reads the output of one task page by page.
type spoken[T any] struct {
	id    task.ID
	after uint64
	page  []saidBatch[T]
	over  bool
}

// fill reads the next page if there is nothing left of the last one.
func (s *spoken[T]) fill(ctx context.Context, c *Client, verb rights.Verb) error {
	if len(s.page) > 0 || s.over {
		return nil
	}
	var is struct {
		Batches []saidBatch[T] `json:"batches"`
		Next    uint64         `json:"next"`
	}
	err := c.ask(ctx, verb, struct {
		ID    task.ID `json:"id"`
		After uint64  `json:"after,omitempty"`
		Limit int     `json:"limit"`
	}{s.id, s.after, 200}, &is)
	s.page, s.over = is.Batches, is.Next == 0
	if n := len(s.page); n > 0 {
		s.after = s.page[n-1].Seq
	}
	return err
}

// spokenBy passes the output of tasks to each, in the order in which it was stored; with follow, until
// ctx ends.
func spokenBy[T any](ctx context.Context, c *Client, verb rights.Verb, ids []task.ID, from uint64, follow bool, each func(uint64, T) error) error {
	all := make([]spoken[T], len(ids))
	for i, id := range ids {
		all[i] = spoken[T]{id: id, after: max(from, 1) - 1}
	}
	for {
		next := -1
		for i := range all {
			if err := all[i].fill(ctx, c, verb); err != nil {
				return err
			}
			if len(all[i].page) > 0 && (next < 0 || all[i].page[0].Seq < all[next].page[0].Seq) {
				next = i
			}
		}
		if next >= 0 {
			b := all[next].page[0]
			all[next].page = all[next].page[1:]
			if err := each(b.Seq, b.Of); err != nil {
				return err
			}
			continue
		}
		if !follow {
			return nil
		}
		if !pause(ctx, askAgain) {
			return ctx.Err()
		}
		for i := range all {
			all[i].over = false
		}
	}
}

// printedOf reads the lines of tasks from a start on.
func (c *Client) printedOf(ctx context.Context, ids []task.ID, from OutputStart, follow bool, each func(uint64, output.Lines) error) error {
	if c.role == "" {
		return c.store.PrintedOf(ctx, ids, from, follow, each)
	}
	return spokenBy(ctx, c, rights.TaskOutput, ids, from.Seq, follow, each)
}

// keptOf reads the records of tasks from a start on.
func (c *Client) keptOf(ctx context.Context, ids []task.ID, from OutputStart, follow bool, each func(uint64, output.Records) error) error {
	if c.role == "" {
		return c.store.KeptOf(ctx, ids, from, follow, each)
	}
	return spokenBy(ctx, c, rights.TaskRecords, ids, from.Seq, follow, each)
}

// rangesAsked is [Client.OutputRanges] by the service.
func (c *Client) rangesAsked(ctx context.Context, id task.ID) (map[uint64]outputs.Range, error) {
	all := map[uint64]outputs.Range{}
	err := c.printedOf(ctx, []task.ID{id}, OutputStart{}, false, func(seq uint64, b output.Lines) error {
		r, known := all[b.Epoch]
		if !known {
			r.First = seq
		}
		if r.Last = seq; len(b.Lines) > 0 {
			r.Lines = max(r.Lines, b.Lines[len(b.Lines)-1].N)
		}
		all[b.Epoch] = r
		return nil
	})
	return all, err
}

// sumsAsked is [Client.RecordSums] by the service.
func (c *Client) sumsAsked(ctx context.Context, id task.ID) (sums []outputs.Sum, dropped output.Records, err error) {
	next := map[uint64]int{} // a batch may come twice
	err = c.keptOf(ctx, []task.ID{id}, OutputStart{}, false, func(_ uint64, b output.Records) error {
		if b.Dropped > 0 {
			dropped = b
			return nil
		}
		at := slices.IndexFunc(sums, func(s outputs.Sum) bool { return s.Epoch == b.Epoch })
		if at < 0 {
			at, sums = len(sums), append(sums, outputs.Sum{Attempt: b.Attempt, Epoch: b.Epoch})
		}
		sums[at].Records += max(b.First+len(b.Items)-max(next[b.Epoch], b.First), 0)
		text, err := value.JSON(b) // as it is stored
		sums[at].Bytes += int64(len(text))
		next[b.Epoch] = max(next[b.Epoch], b.First+len(b.Items))
		return err
	})
	return sums, dropped, err
}

// artifactsAsked is [Client.Artifacts] by the service.
func (c *Client) artifactsAsked(ctx context.Context, id task.ID) ([]StepArtifacts, error) {
	var is struct {
		Artifacts []StepArtifacts `json:"artifacts"`
	}
	if err := c.ask(ctx, rights.TaskFiles, idOf{id}, &is); err != nil {
		return nil, toldOf(err, "task "+string(id), task.ErrUnknown)
	}
	members, err := c.Members(ctx, id)
	for i := range is.Artifacts {
		l := &is.Artifacts[i]
		l.Current = slices.ContainsFunc(members, func(m Member) bool { return m.Task.ID == l.Task && m.Task.Epoch == l.Epoch })
	}
	return is.Artifacts, err
}

// bundlesAsked is [Client.Bundles] by the service.
func (c *Client) bundlesAsked(ctx context.Context, name string) ([]definitions.NamedVersion, error) {
	var is struct {
		Bundles []definitions.NamedVersion `json:"bundles"`
	}
	err := c.ask(ctx, rights.FilesList, struct {
		Name string `json:"name,omitempty"`
	}{name}, &is)
	return is.Bundles, err
}

// versionAsked asks for a version, and for a page of its files.
func (c *Client) versionAsked(ctx context.Context, named, after string) (v files.Version, entries []files.Entry, next string, err error) {
	var is struct {
		Digest  files.Digest  `json:"digest"`
		Files   int           `json:"files"`
		Bytes   int64         `json:"bytes"`
		At      time.Time     `json:"at"`
		By      string        `json:"by"`
		Entries []files.Entry `json:"entries"`
		Next    string        `json:"next"`
	}
	err = c.ask(ctx, rights.FilesGet, struct {
		Version string `json:"version"`
		After   string `json:"after,omitempty"`
		Limit   int    `json:"limit"`
	}{named, after, view.MaxLimit}, &is)
	return files.Version{Digest: is.Digest, Files: is.Files, Bytes: is.Bytes, At: is.At, By: is.By}, is.Entries, is.Next, err
}

// manifestAsked is [Client.FilesManifest] by the service: without what the files contain.
func (c *Client) manifestAsked(ctx context.Context, of files.Digest) (*files.Manifest, error) {
	m := &files.Manifest{}
	for after := ""; ; {
		_, entries, next, err := c.versionAsked(ctx, string(of), after)
		if m.Entries = append(m.Entries, entries...); err != nil || next == "" {
			return m, err
		}
		after = next
	}
}

// submitAsked makes tasks by the service.
func (c *Client) submitAsked(ctx context.Context, all []birth.Submission, each func(Receipt)) error {
	if each == nil {
		each = func(Receipt) {}
	}
	if len(all) == 1 {
		var r Receipt
		err := c.ask(ctx, rights.TaskSubmit, all[0], &r)
		if err == nil {
			each(r)
		}
		return err
	}
	for some := range slices.Chunk(all, submitAtOnce) {
		var is struct {
			Receipts []Receipt `json:"receipts"`
			Broken   string    `json:"broken"`
		}
		err := c.ask(ctx, rights.TaskBulk, struct {
			Tasks []birth.Submission `json:"tasks"`
		}{some}, &is)
		for _, r := range is.Receipts {
			each(r)
		}
		if err == nil && is.Broken != "" {
			err = errors.New(strings.TrimPrefix(is.Broken, "submit: "))
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// submitAtOnce is how many submissions one request has.
const submitAtOnce = 100

// waitNodeAsked is [Client.WaitNode] by the service.
func (c *Client) waitNodeAsked(ctx context.Context, id node.ID, stable time.Duration, changed func(node.Node)) (node.Node, error) {
	n := node.Node{ID: id}
	for {
		var is struct {
			NodeView
			Met bool `json:"met"`
		}
		err := c.ask(ctx, rights.NodeWait, struct {
			ID     node.ID        `json:"id"`
			Stable value.Duration `json:"stable,omitempty"`
		}{id, value.Duration(stable)}, &is)
		if ctx.Err() != nil {
			return n, ctx.Err()
		}
		if err != nil {
			return n, err
		}
		if n = is.Node; changed != nil {
			changed(n)
		}
		if is.Met {
			return n, nil
		}
	}
}

// scheduleAsked is [Client.ScheduleOf] by the service.
func (c *Client) scheduleAsked(ctx context.Context, at view.Point, name string, since time.Time, most int) (v ScheduleView, err error) {
	r := struct {
		Name  string    `json:"name"`
		Since time.Time `json:"since"`
		Limit int       `json:"limit"`
		At    string    `json:"at,omitempty"`
	}{Name: name, Since: since, Limit: most}
	if at.Seq > 0 {
		r.At = strconv.FormatUint(at.Seq, 10)
	}
	err = c.ask(ctx, rights.ScheduleGet, r, &v)
	return v, absent(err, definitions.ErrNoSchedule, name)
}

// absent is the error of a request about a definition, which may not exist.
func absent(err error, kind error, name string) error {
	if refused, ok := errors.AsType[*jet.ServiceError](err); ok && refused.Code == "404" {
		return &definitions.Absent{Kind: kind, Name: name}
	}
	return err
}
