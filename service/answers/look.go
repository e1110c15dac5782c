package answers

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"millrace/events"
	"millrace/internal/observe"
	"millrace/projections/view"
	"millrace/service/client"
	"millrace/task"
	"millrace/task/output"
)

// pastRequest names a task, and a moment of the past.
type pastRequest struct {
	// ID is the task's.
	ID task.ID `json:"id"`
	// At is a sequence of the log, or a time; "" is now.
	At string `json:"at,omitempty"`
}

func (r *pastRequest) check() (err error) {
	r.ID, err = task.ParseID(string(r.ID))
	return err
}

// MomentOf is [view.ParseMoment] for a request.
func MomentOf(text string, now time.Time) (view.Moment, error) { return momentIn("at", text, now) }

// momentIn is [view.ParseMoment] for a field of a request.
func momentIn(field, text string, now time.Time) (view.Moment, error) {
	m, err := view.ParseMoment(text, now.UTC())
	if err != nil {
		err = badRequest{fmt.Errorf("%s: %w", field, err)}
	}
	return m, err
}

// sight returns a view of a moment, and when that is; of the present if at is "".
func (s *Service) sight(ctx context.Context, at string) (view.View, time.Time, error) {
	if at == "" {
		return s.view(), s.now(), nil
	}
	return s.then(ctx, at)
}

// then returns a view of a moment of the past, and when that was.
func (s *Service) then(ctx context.Context, at string) (v view.Whole, when time.Time, err error) {
	p, err := s.pointOf(ctx, "at", at)
	if err != nil {
		return v, when, err
	}
	return s.Model.At(p, s.Client.Log()), p.At, nil
}

// before refuses a moment before the log's first message.
type before struct{ error }

func (b before) Unwrap() error { return b.error }

// pointOf returns the place in the log of a moment in a field of a request.
func (s *Service) pointOf(ctx context.Context, field, at string) (view.Point, error) {
	m, err := momentIn(field, at, s.now())
	if err != nil {
		return view.Point{}, err
	}
	if err := s.Client.Reached(ctx, m, s.now()); err != nil {
		return view.Point{}, fmt.Errorf("%s: %w", field, err)
	}
	p, found, err := s.Client.PointAt(ctx, m)
	if err != nil || found {
		return p, err
	}
	what := errors.New("before the log begins")
	if begins, err := s.Client.Begins(ctx); err != nil {
		return p, err
	} else if begins > 0 {
		first, _, err := s.Client.First(ctx)
		if err != nil {
			return p, err
		}
		what = view.Forgotten{Seq: first.Seq, At: first.Stored.UTC()}
	}
	return p, before{badRequest{fmt.Errorf("%s: %s is %w", field, at, what)}}
}

func (s *Service) get(ctx context.Context, r pastRequest) (task.Task, error) {
	v, _, err := s.sight(ctx, r.At)
	if err != nil {
		return task.Task{}, err
	}
	return view.GetTask(ctx, v, r.ID)
}

// endAnswer tells whether a task has ended.
type endAnswer struct {
	// Task is the task as it is now. Met tells whether it has ended.
	Task task.Task `json:"task"`
	Met  bool      `json:"met"`
}

func (s *Service) waitTask(ctx context.Context, r taskRequest) (is endAnswer, err error) {
	err = waits(ctx, func(ctx context.Context) (err error) {
		ctx, cancel := context.WithTimeout(ctx, watchFor)
		defer cancel()
		is.Task, err = s.Client.Wait(ctx, r.ID)
		return err
	})
	if err != nil && (!errors.Is(err, context.DeadlineExceeded) || is.Task.ID == "") {
		return is, err
	}
	is.Met = err == nil
	return is, nil
}

// holders is how many of the tasks that hold a limit are named.
const holders = 5

// explanation says why a task is where it is.
type explanation struct {
	view.Explanation
	// Facts are the facts that led to the state.
	Facts []client.ShownFact `json:"facts"`
	// Seq is the sequence of the last fact about the task.
	Seq uint64 `json:"seq"`
}

func (s *Service) why(ctx context.Context, r pastRequest) (explanation, error) {
	v, now, err := s.sight(ctx, r.At)
	if err != nil {
		return explanation{}, err
	}
	e, err := view.Why(ctx, v, r.ID, s.rulesAt(r.At, now))
	if err != nil {
		return explanation{}, err
	}
	return explanation{*e, client.ShowFacts(e.Decisive), e.Folded.Seq}, nil
}

// branch is a task with its children.
type branch struct {
	// Name is the task's name in its parent.
	Name string `json:"name,omitempty"`
	// Spawned says that the program of the task above has made it while it ran.
	Spawned bool `json:"spawned,omitempty"`
	// Task has only an ID if it was not made yet.
	Task task.Task `json:"task"`
	// Children are those into which the task was expanded, in their order, and behind them those that
	// it has spawned.
	Children []branch `json:"children,omitempty"`
}

func (s *Service) tree(ctx context.Context, r pastRequest) (branch, error) {
	v, _, err := s.sight(ctx, r.At)
	if err != nil {
		return branch{}, err
	}
	lists := v
	if r.At != "" {
		lists = s.view()
	}
	b, err := view.Tree(ctx, v, lists, r.ID)
	return branchOf(&b), err
}

func branchOf(b *view.Branch) branch {
	is := branch{Name: b.Name, Spawned: b.Spawned, Task: b.Task}
	for i := range b.Branches {
		is.Children = append(is.Children, branchOf(&b.Branches[i]))
	}
	return is
}

// trace returns the spans of a task and all below it.
func (s *Service) trace(ctx context.Context, r pastRequest) (json.RawMessage, error) {
	v, now, err := s.sight(ctx, r.At)
	if err != nil {
		return nil, err
	}
	ids, err := client.SubmittedOf(ctx, v, r.ID)
	if err != nil {
		return nil, err
	}
	all, err := observe.Pasts(ctx, func(ctx context.Context, id task.ID) ([]events.Record, error) {
		return view.All(ctx, v, view.Task(id))
	}, ids, now)
	if err != nil {
		return nil, err
	}
	return observe.JSON(ctx, observe.Config{Version: s.Version}, all)
}

// diffRequest names two tasks, or one and one or two moments.
type diffRequest struct {
	// ID is a task's. With is another task to compare it with.
	ID   task.ID `json:"id"`
	With task.ID `json:"with,omitempty"`
	// At is the moment of the task to compare from: a sequence of the log, or a time.
	At string `json:"at,omitempty"`
	// Until is the second moment; "" is now.
	Until string `json:"until,omitempty"`
}

func (r *diffRequest) check() (err error) {
	if (r.With == "") == (r.At == "") || r.Until != "" && r.At == "" {
		return errors.New("want with, of another task, or at, and perhaps until, of moments of this one")
	}
	if r.With != "" {
		if r.With, err = task.ParseID(string(r.With)); err != nil {
			return fmt.Errorf("with: %w", err)
		}
	}
	r.ID, err = task.ParseID(string(r.ID))
	return err
}

// diffAnswer lists how two tasks differ, or one at two moments, field by field.
type diffAnswer struct {
	// Changes are the fields that differ.
	Changes []view.Change `json:"changes"`
}

func (s *Service) diff(ctx context.Context, r diffRequest) (diffAnswer, error) {
	if r.With == "" {
		r.With = r.ID
	}
	return between(ctx, s, [2]side{{string(r.ID), r.At}, {string(r.With), r.Until}}, func(v view.View, id string) (view.Item, error) {
		t, err := view.GetTask(ctx, v, task.ID(id))
		return view.Item{Task: &t}, err
	}, view.DiffItems)
}

// side is one of two things that are compared: its name, and the moment, "" for now.
type side struct{ name, at string }

// between returns how two things differ that get finds.
func between[T any](ctx context.Context, s *Service, sides [2]side, get func(v view.View, name string) (T, error), differ func(was, is T) ([]view.Change, error)) (diffAnswer, error) {
	var found [2]T
	for i, of := range sides {
		v, _, err := s.sight(ctx, of.at)
		if err == nil {
			found[i], err = get(v, of.name)
		}
		if err != nil {
			return diffAnswer{}, err
		}
	}
	changes, err := differ(found[0], found[1])
	return diffAnswer{append([]view.Change{}, changes...)}, err
}

// factPage is a page of facts.
type factPage struct {
	// Facts are in the order of the log.
	Facts []client.ShownFact `json:"facts"`
	// Next is where the next page begins; 0 if there is none so far.
	Next uint64 `json:"next,omitempty"`
	// Last is the sequence of the last message of the log; 0 if the answer is about one task.
	Last uint64 `json:"last,omitempty"`
}

func (s *Service) history(ctx context.Context, r pastRequest) (factPage, error) {
	v, _, err := s.sight(ctx, r.At)
	if err != nil {
		return factPage{}, err
	}
	records, err := view.All(ctx, v, view.Task(r.ID))
	return factPage{Facts: client.ShowFacts(records)}, err
}

// rangeRequest chooses facts of the log.
type rangeRequest struct {
	// From is the sequence of the first one; 0 means the beginning.
	From uint64 `json:"from,omitempty"`
	// Limit is how many facts are returned: 1 to 1000, default 50.
	Limit int `json:"limit,omitempty"`
	view.FactFilter
}

func (r *rangeRequest) check() error {
	if err := r.Validate(); err != nil {
		return err
	}
	return validLimit(&r.Limit)
}

// validLimit checks the number of rows of a page, and sets the default.
func validLimit(limit *int) error {
	if *limit == 0 {
		*limit = view.DefaultLimit
	}
	if *limit < 1 || *limit > view.MaxLimit {
		return fmt.Errorf("limit is %d, want 1 to %d", *limit, view.MaxLimit)
	}
	return nil
}

func (s *Service) events(ctx context.Context, r rangeRequest) (factPage, error) {
	is := factPage{Facts: []client.ShownFact{}}
	last, err := s.Client.Last(ctx)
	is.Last = last
	if err != nil || r.From > last {
		return is, err
	}
	r.From = max(r.From, 1)
	if r.Task != "" {
		return is, s.eventsOfTask(ctx, &r, &is)
	}
	// The index knows the log up to what it has reached, and the rest is read.
	next, err := r.From, view.ErrUnindexed
	if reached := min(s.Model.Reached(), last); len(r.Types) > 0 || r.Node != "" || r.Queue != "" {
		next, err = s.eventsTraced(ctx, &r, reached, &is)
	}
	switch {
	case errors.Is(err, view.ErrUnindexed):
		next, is = r.From, factPage{Facts: []client.ShownFact{}, Last: last}
	case err != nil || is.Next > 0:
		return is, err
	}
	queues := queuesOf{client: s.Client}
	for read := 0; next <= last; {
		if is.Next = next; len(is.Facts) == r.Limit || read >= mostRead {
			return is, nil
		}
		records, err := s.Client.Store().Page(ctx, next, r.Limit)
		if err != nil || len(records) == 0 {
			is.Next = 0
			return is, err
		}
		for i := range records {
			if len(is.Facts) == r.Limit {
				records = records[:i]
				break
			}
			wanted, err := queues.wanted(ctx, &r.FactFilter, &records[i])
			if err != nil {
				return is, err
			}
			if wanted {
				is.Facts = append(is.Facts, client.ShowFact(&records[i]))
			}
		}
		read += len(records)
		next = records[len(records)-1].Seq + 1
	}
	is.Next = 0
	return is, nil
}

// eventsOfTask adds a task's facts, which lie together.
func (s *Service) eventsOfTask(ctx context.Context, r *rangeRequest, is *factPage) error {
	records, err := view.All(ctx, s.view(), view.Task(r.Task))
	if errors.Is(err, task.ErrUnknown) {
		return nil
	}
	queues := queuesOf{client: s.Client}
	for i := range records {
		wanted, err := queues.wanted(ctx, &r.FactFilter, &records[i])
		switch {
		case err != nil:
			return err
		case records[i].Seq < r.From || !wanted:
		case len(is.Facts) == r.Limit:
			is.Next = records[i].Seq
			return nil
		default:
			is.Facts = append(is.Facts, client.ShowFact(&records[i]))
		}
	}
	return err
}

// eventsTraced adds the facts that the index knows up to a sequence, and returns where to read on.
// The page has a next one if there are more. The error wraps [view.ErrUnindexed] if the index does
// not know.
func (s *Service) eventsTraced(ctx context.Context, r *rangeRequest, reached uint64, is *factPage) (next uint64, err error) {
	tracer, ok := s.Model.(Tracer)
	if !ok {
		return 0, view.ErrUnindexed
	}
	asked := view.Trace{Types: r.Types, Node: r.Node, Queue: r.Queue, OldestFirst: true}
	known := r.FactFilter
	known.Queue = "" // of tasks
	for next, read := r.From, 0; next <= reached; {
		seqs, err := tracer.Traces(ctx, asked, next-1, r.Limit+1)
		if err != nil {
			return next, err
		}
		records, err := RecordsAt(ctx, served{s.Client}, seqs)
		if err != nil {
			return next, err
		}
		for i := range records {
			filter := &r.FactFilter
			if view.RefOf(&records[i]).Kind == view.Tasks {
				filter = &known
			}
			traits := view.TraitsOf(&records[i], "")
			switch {
			case records[i].Seq > reached || !filter.Wants(&traits):
			case len(is.Facts) == r.Limit:
				is.Next = records[i].Seq
				return is.Next, nil
			default:
				is.Facts = append(is.Facts, client.ShowFact(&records[i]))
			}
		}
		if len(seqs) <= r.Limit {
			return reached + 1, nil
		}
		next = seqs[r.Limit] + 1
		if read += len(seqs); read >= mostRead {
			is.Next = next
			return next, nil
		}
	}
	return max(reached+1, r.From), nil
}

// mostRead is how many records are read for one page at most: a filter that chooses few may get an
// empty page.
const mostRead = 10_000

// queuesOf remembers the queues of recently looked-up tasks. Use it in one goroutine.
type queuesOf struct {
	client *client.Client
	known  map[task.ID]string
}

// mostQueues is how many tasks it remembers.
const mostQueues = 4096

// wanted tells whether a filter chooses a record. The queue of a fact is its task's, which the
// task's other facts tell.
func (q *queuesOf) wanted(ctx context.Context, f *view.FactFilter, r *events.Record) (bool, error) {
	is := view.TraitsOf(r, f.Queue)
	if f.Queue == "" || r.Fact.Task == "" || !f.Wants(&is) { // whatever its queue
		is = view.TraitsOf(r, "")
		return f.Wants(&is), nil
	}
	queue, ok := q.known[r.Fact.Task]
	if !ok {
		t, err := q.client.Task(ctx, r.Fact.Task)
		if err != nil && !errors.Is(err, task.ErrUnknown) {
			return false, err
		}
		if q.known == nil || len(q.known) == mostQueues {
			q.known = map[task.ID]string{}
		}
		queue = t.QueueName()
		q.known[r.Fact.Task] = queue
	}
	return queue == f.Queue, nil
}

// saidRequest chooses batches of a task's lines or records.
type saidRequest struct {
	// ID is the task's.
	ID task.ID `json:"id"`
	// After is the Seq of the last batch of the previous page.
	After uint64 `json:"after,omitempty"`
	// Limit is how many batches are returned: 1 to 1000, default 50.
	Limit int `json:"limit,omitempty"`
}

func (r *saidRequest) check() (err error) {
	if r.ID, err = task.ParseID(string(r.ID)); err != nil {
		return err
	}
	return validLimit(&r.Limit)
}

// outputRequest chooses batches of a task's lines, or the last lines.
type outputRequest struct {
	saidRequest
	// Tail asks for that many of the last lines, in place of a page: 1 to 1000. Followers take no such field.
	Tail int `json:"tail,omitempty"`
}

func (r *outputRequest) check() error {
	switch {
	case r.Tail < 0 || r.Tail > view.MaxLimit:
		return fmt.Errorf("tail is %d, want 1 to %d", r.Tail, view.MaxLimit)
	case r.Tail > 0 && r.After > 0:
		return errors.New("want after, of a page, or tail, of the last lines, not both")
	case r.Tail > 0:
		r.Limit = view.MaxLimit
	}
	return r.saidRequest.check()
}

// lastLines leaves only the last n lines of some batches.
func lastLines(all []batch[output.Lines], n int) []batch[output.Lines] {
	for i := len(all) - 1; i >= 0; i-- {
		lines := &all[i].Of.Lines
		if n < len(*lines) {
			*lines = (*lines)[len(*lines)-n:]
		}
		if n -= len(*lines); n == 0 {
			return all[i:]
		}
	}
	return all
}

// batch is what was stored in one message of a task's output, with its sequence in that stream.
type batch[T any] struct {
	// Seq is the sequence of the message, and Of what it holds.
	Seq uint64 `json:"seq"`
	Of  T      `json:"of"`
}

// saidPage is a page of batches.
type saidPage[T any] struct {
	// Batches are in the order in which they were stored.
	Batches []batch[T] `json:"batches"`
	// Next is the After of the next page; 0 if there is none so far.
	Next uint64 `json:"next,omitempty"`
}

// errEnough ends the reading of a page.
var errEnough = errors.New("the page is full")

// said reads a page. It counts bytes as it reads: a batch has a megabyte at most.
func said[T any](r saidRequest, size func(*T) int, read func(from client.OutputStart, each func(uint64, T) error) error) (saidPage[T], error) {
	is := saidPage[T]{Batches: []batch[T]{}}
	from, bytes := client.OutputStart{}, 0
	if r.After > 0 {
		from.Seq = r.After + 1
	}
	err := read(from, func(seq uint64, of T) error {
		if len(is.Batches) == r.Limit || bytes > requestBytes/4 {
			is.Next = is.Batches[len(is.Batches)-1].Seq
			return errEnough
		}
		is.Batches = append(is.Batches, batch[T]{seq, of})
		bytes += size(&of)
		return nil
	})
	if errors.Is(err, errEnough) {
		err = nil
	}
	return is, err
}

// silent tells a task that has left nothing from one that does not exist.
func (s *Service) silent(ctx context.Context, id task.ID, found int, err error) error {
	if err != nil || found > 0 {
		return err
	}
	_, err = view.GetTask(ctx, s.view(), id)
	return err
}

func (s *Service) output(ctx context.Context, r outputRequest) (saidPage[output.Lines], error) {
	size := func(b *output.Lines) (n int) {
		for i := range b.Lines {
			n += len(b.Lines[i].Text) + len(b.Lines[i].Fields)
		}
		return n
	}
	is, err := said(r.saidRequest, size, func(from client.OutputStart, each func(uint64, output.Lines) error) (err error) {
		if r.Tail > 0 {
			from, err = s.Client.OutputTail(ctx, r.ID, r.Tail, time.Time{}, func(int, *output.Line) bool { return true })
		}
		if err != nil {
			return err
		}
		return s.Client.Store().PrintedFrom(ctx, r.ID, from, false, each)
	})
	if r.Tail > 0 && is.Next == 0 {
		is.Batches = lastLines(is.Batches, r.Tail)
	}
	return is, s.silent(ctx, r.ID, len(is.Batches), err)
}

func (s *Service) records(ctx context.Context, r saidRequest) (saidPage[output.Records], error) {
	size := func(b *output.Records) (n int) {
		for i := range b.Items {
			n += len(b.Items[i])
		}
		return n
	}
	is, err := said(r, size, func(from client.OutputStart, each func(uint64, output.Records) error) error {
		return s.Client.Store().KeptOf(ctx, []task.ID{r.ID}, from, false, each)
	})
	return is, s.silent(ctx, r.ID, len(is.Batches), err)
}

// leftAnswer lists the artifacts of a task's attempts.
type leftAnswer struct {
	// Artifacts are those of all attempts, the oldest first; those of children after those of their
	// parent.
	Artifacts []client.StepArtifacts `json:"artifacts"`
}

func (s *Service) artifacts(ctx context.Context, r taskRequest) (leftAnswer, error) {
	left, err := s.Client.Artifacts(ctx, r.ID)
	return leftAnswer{append([]client.StepArtifacts{}, left...)}, s.silent(ctx, r.ID, len(left), err)
}
