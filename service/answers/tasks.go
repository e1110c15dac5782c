package answers

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/oklog/ulid/v2"

	"millrace/events"
	"millrace/events/jet/rights"
	"millrace/projections/view"
	"millrace/service/client"
	"millrace/task"
	"millrace/task/birth"
	"millrace/task/condition"
	"millrace/task/job"
	"millrace/task/output"
	"millrace/task/value"
)

// read decodes a request; an empty one means {}.
func read[T any](body []byte) (T, error) {
	var request T
	if len(bytes.TrimSpace(body)) == 0 {
		return request, nil
	}
	if err := value.Strictly(body, &request); err != nil {
		return request, badRequest{fmt.Errorf("the request is not what is wanted here: %w", err)}
	}
	return request, nil
}

func (s *Service) submit(ctx context.Context, request birth.Submission) (client.Receipt, error) {
	return s.Client.Submit(ctx, request)
}

// taskRequest names a task.
type taskRequest struct {
	// ID is the task's.
	ID task.ID `json:"id"`
}

func (r *taskRequest) check() (err error) {
	r.ID, err = task.ParseID(string(r.ID))
	return err
}

// idRequest names a task, and says why something is done to it.
type idRequest struct {
	// ID is the task's. Reason says why, for the log.
	ID     task.ID `json:"id"`
	Reason string  `json:"reason,omitempty" flag:"reason" usage:"why, in {words}; the log keeps them"`
}

func (r *idRequest) check() (err error) {
	r.ID, err = task.ParseID(string(r.ID))
	return err
}

// acting returns the function of an endpoint that changes a task.
func acting(do func(c *client.Client, ctx context.Context, id task.ID, reason string) (task.Task, error)) func(*Service, context.Context, idRequest) (task.Task, error) {
	return func(s *Service, ctx context.Context, r idRequest) (task.Task, error) {
		return do(s.Client, ctx, r.ID, r.Reason)
	}
}

func (s *Service) release(ctx context.Context, r idRequest) (task.Task, error) {
	return s.Client.Change(ctx, "release", r.ID, task.Unbind{Reason: r.Reason})
}

// rejectRequest is an idRequest about a signal.
type rejectRequest struct {
	idRequest
	// Name is that of the signal that is meant, or of the step that waits for it; another one is left alone. Default: the
	// one that the task waits for.
	Name string `json:"name,omitempty" flag:"name" usage:"the approval of this {name}, or of this step, and no other"`
}

// signalRequest is a rejectRequest with the signal's data.
type signalRequest struct {
	rejectRequest
	// Data is what the task gets with the signal: any JSON. Default: none.
	Data json.RawMessage `json:"data,omitempty" flag:"data" usage:"data for the tasks, {JSON|@file|-}"`
	// Texts are answers to the form of the signal as a person types them; they win over Data.
	Texts map[string]string `json:"texts,omitempty" flag:"answer" usage:"an answer that its form asks for, {name=value} (repeat it)"`
}

func (s *Service) signal(ctx context.Context, request signalRequest) (task.Task, error) {
	return s.Client.Approve(ctx, request.ID, client.Approval{Name: request.Name, Data: request.Data, Texts: request.Texts, Reason: request.Reason})
}

func (s *Service) list(ctx context.Context, r client.ListRequest) (taskPage, error) {
	if err := r.Read(s.now()); err != nil {
		return taskPage{}, err
	}
	filter := r.Filter
	if r.After != "" {
		after, err := task.ParseID(string(r.After))
		if err != nil {
			return taskPage{}, badRequest{fmt.Errorf("after: %w", err)}
		}
		filter.After = after
	}
	if r.IDPart != "" {
		part, ok := task.Part(r.IDPart)
		if !ok {
			return taskPage{}, badRequest{fmt.Errorf("id is %q, want at least %d characters from the beginning or the end of one", r.IDPart, task.MinPart)}
		}
		filter.IDPart = part
	}
	// What is wrong is refused before anything is waited for.
	if err := filter.Validate(); err != nil {
		return taskPage{}, err
	}
	if r.At != "" && (r.Doubted || r.NewerThan > 0) {
		return taskPage{}, badRequest{errors.New("of the past it is not known who was suspect, and nothing new comes")}
	}
	if r.At != "" && r.Text != "" {
		return taskPage{}, client.ErrPastText
	}
	if err := s.await(ctx, r.AtLeast, r.NewerThan); err != nil {
		return taskPage{}, err
	}
	if r.At != "" {
		return s.listThen(ctx, &r, &filter)
	}
	if r.Doubted {
		doubts, err := s.doubts(ctx)
		if err != nil {
			return taskPage{}, err
		}
		filter.Suspect = func(t *task.Task) bool { return doubts.Of(t) != nil }
	}
	pageOf := client.PageOf
	if len(filter.Records) > 0 {
		pageOf = s.reporting
	}
	found, err := pageOf(ctx, s.view(), filter, r.Counts)
	if err != nil {
		return taskPage{}, err
	}
	page := taskPage{found, &filter}
	if r.Progress {
		if page.Live, page.Wholes, err = s.progress(ctx, found.Tasks); err != nil {
			return taskPage{}, err
		}
	}
	if page.Suspects, err = s.suspects(ctx, found.Tasks); err != nil {
		return page, err
	}
	page.Unserved, err = s.unserved(ctx, found.Tasks)
	return page, err
}

// Bounds of a search for records, of which there is no index.
const (
	searchedTasks = 500 // of a page
	searchedAtOne = 100 // that are read together
)

// reporting is [client.PageOf] for a filter with records. It reads the records of the latest attempt of
// each task that matches all else, until the page is full or a bound is reached.
func (s *Service) reporting(ctx context.Context, v view.View, f view.Filter, counts bool) (page client.ListPage, err error) {
	most, err := f.Most()
	if err != nil {
		return page, err
	}
	looking, cancel := context.WithTimeout(ctx, searchFor)
	defer cancel()
	asked := f.Records
	f.Records, f.Limit, page.Tasks = nil, searchedAtOne, []task.Task{}
	for {
		some, err := client.PageOf(ctx, v, f, counts && page.Counts == nil)
		if err != nil {
			return page, err
		}
		if page.Seq = some.Seq; page.Counts == nil {
			page.Counts = some.Counts
		}
		has, err := s.reported(ctx, some.Tasks, asked)
		if err != nil {
			return page, err
		}
		for i := range some.Tasks {
			t := &some.Tasks[i]
			if page.Searched++; has[t.ID] {
				page.Tasks = append(page.Tasks, *t)
			}
			if len(page.Tasks) == most && i < len(some.Tasks)-1 {
				page.Next = f.CursorAfter(t.ID)
				return page, nil
			}
		}
		page.Next = some.Next
		f.Cursor, f.After = some.Next, ""
		if some.Next == "" || len(page.Tasks) == most || page.Searched >= searchedTasks || looking.Err() != nil {
			return page, nil
		}
	}
}

// reported tells of which tasks the latest attempt has a record with all values.
func (s *Service) reported(ctx context.Context, tasks []task.Task, asked map[string]string) (has map[task.ID]bool, err error) {
	has = map[task.ID]bool{}
	epochs := map[task.ID]uint64{}
	for i := range tasks {
		if t := &tasks[i]; t.Epoch > 0 {
			epochs[t.ID] = t.Epoch
		}
	}
	if len(epochs) == 0 {
		return has, nil
	}
	reading, cancel := context.WithTimeout(ctx, searchFor)
	defer cancel()
	err = s.Client.Store().KeptOf(reading, slices.Collect(maps.Keys(epochs)), client.OutputStart{}, false, func(_ uint64, b output.Records) error {
		if b.Epoch != epochs[b.Task] || has[b.Task] || !slices.ContainsFunc(b.Items, func(item json.RawMessage) bool { return view.HasParts(item, asked) }) {
			return nil
		}
		if has[b.Task] = true; len(has) == len(epochs) {
			return errEnough
		}
		return nil
	})
	switch {
	case errors.Is(err, errEnough):
		err = nil
	case err != nil && ctx.Err() == nil && reading.Err() != nil:
		err = badRequest{fmt.Errorf("the records of %d tasks were not read within %v: choose fewer, such as by job or since", len(epochs), searchFor)}
	}
	return has, err
}

// rows returns a page of the read model's rows.
func (s *Service) rows(ctx context.Context, r client.RowsRequest) (view.Rows, error) {
	filter := view.Filter{Limit: r.Limit, OldestFirst: r.OldestFirst}
	if r.After != "" {
		after, err := task.ParseID(string(r.After))
		if err != nil {
			return view.Rows{}, badRequest{fmt.Errorf("after: %w", err)}
		}
		filter.After = after
	}
	if err := filter.Validate(); err != nil {
		return view.Rows{}, err
	}
	if err := s.await(ctx, r.AtLeast, 0); err != nil {
		return view.Rows{}, err
	}
	if s.Stored == nil {
		return view.Rows{}, badRequest{errors.New("this server has no read model that stores rows")}
	}
	return s.Stored.Rows(ctx, filter)
}

// listThen lists the tasks of a moment of the past that a filter chooses.
func (s *Service) listThen(ctx context.Context, r *client.ListRequest, f *view.Filter) (taskPage, error) {
	v, _, err := s.then(ctx, r.At)
	if err != nil {
		return taskPage{}, err
	}
	found, err := client.PastPageOf(ctx, v, *f, r)
	return taskPage{found, f}, err
}

func (s *Service) unreadable(ctx context.Context, r client.UnreadableRequest) (is client.UnreadablePage, err error) {
	query := view.Query{Kind: view.Messages, Before: r.Before, Filter: view.Filter{Limit: r.Limit}}
	most, err := query.Most()
	if err != nil {
		return is, err
	}
	var then view.Point
	if r.At != "" {
		if then, err = s.pointOf(ctx, "at", r.At); err != nil {
			return is, err
		}
		if query.Before == 0 || query.Before > then.Seq {
			query.Before = then.Seq + 1
		}
	}
	if err := s.await(ctx, max(r.AtLeast, then.Seq), 0); err != nil {
		return is, err
	}
	found, err := s.view().List(ctx, query)
	if err != nil {
		return is, err
	}
	all := found.Messages
	if r.At != "" {
		since, err := s.dismissedSince(ctx, then.Seq, query.Before)
		if err != nil {
			return is, err
		}
		// One that is dismissed in this moment is in both.
		all = append(all, since...)
		slices.SortFunc(all, func(a, b view.Message) int { return cmp.Compare(b.Seq, a.Seq) })
		all = slices.CompactFunc(all, func(a, b view.Message) bool { return a.Seq == b.Seq })
		all = all[:min(len(all), most)]
	}
	is.Messages, is.Seq = make([]client.Unreadable, 0, len(all)), found.Point.Seq
	for _, p := range all {
		is.Messages = append(is.Messages, client.Unreadable(p))
	}
	if n := len(all); n == most {
		is.Next = all[n-1].Seq
	}
	return is, nil
}

// dismissedSince returns the unreadable messages before a sequence that were dismissed after
// another one.
func (s *Service) dismissedSince(ctx context.Context, seq, before uint64) (all []view.Message, err error) {
	tracer, ok := s.Model.(Tracer)
	if !ok {
		return nil, view.ErrUnindexed
	}
	for {
		facts, err := tracer.Traces(ctx, view.Trace{Types: []string{string(events.MessageDismissed)}, OldestFirst: true}, seq, view.MaxLimit)
		if err != nil {
			return nil, err
		}
		dismissals, err := RecordsAt(ctx, served{s.Client}, facts)
		if err != nil {
			return nil, err
		}
		var seqs []uint64
		for i := range dismissals {
			if of := dismissals[i].Fact.Message; dismissals[i].Fact.Type == events.MessageDismissed && of < before {
				seqs = append(seqs, of)
			}
		}
		messages, err := RecordsAt(ctx, served{s.Client}, seqs)
		if err != nil {
			return nil, err
		}
		for i := range messages {
			if m, unreadable := view.MessageOf(&messages[i]); unreadable {
				all = append(all, m)
			}
		}
		if len(facts) < view.MaxLimit {
			return all, nil
		}
		seq = slices.Max(facts)
	}
}

// deadLetter names a task or a message.
type deadLetter struct {
	// ID is a task's, and Seq the sequence of a message: one of them. Reason says why, for the log.
	ID     task.ID `json:"id,omitempty"`
	Seq    uint64  `json:"seq,omitempty"`
	Reason string  `json:"reason,omitempty"`
}

func (r *deadLetter) check() (err error) {
	if (r.ID == "") == (r.Seq == 0) {
		return errors.New("want either id, of a task, or seq, of a message")
	}
	if r.ID != "" {
		r.ID, err = task.ParseID(string(r.ID))
	}
	return err
}

func (s *Service) dismiss(ctx context.Context, r deadLetter) (any, error) {
	if r.Seq == 0 {
		return s.Client.Dismiss(ctx, r.ID, r.Reason)
	}
	if err := s.Client.DismissMessage(ctx, r.Seq, r.Reason); err != nil {
		return nil, err
	}
	return deadLetter{Seq: r.Seq}, nil
}

// await waits until answers reflect a sequence, and a while for news.
func (s *Service) await(ctx context.Context, atLeast, newerThan uint64) error {
	if reached := s.Model.Reached(); atLeast > reached {
		end, err := s.Client.Store().End(ctx)
		if err != nil {
			return err
		}
		if atLeast > end {
			return badRequest{fmt.Errorf("at_least is %d, and the log ends at %d", atLeast, end)}
		}
		if err := waits(ctx, func(ctx context.Context) error { return s.Model.Wait(ctx, atLeast) }); err != nil {
			return err
		}
	}
	if newerThan == 0 || s.Model.Reached() > newerThan {
		return nil
	}
	return waits(ctx, func(ctx context.Context) error {
		quiet, cancel := context.WithTimeout(ctx, watchFor)
		defer cancel()
		if err := s.Model.News(quiet, newerThan); err != nil && !errors.Is(err, context.DeadlineExceeded) {
			return err
		}
		return ctx.Err()
	})
}

// mine returns the endpoint of a verb that does what another does, for tasks that the caller has
// submitted, and for those below them; of an answer, for tasks that ask for the caller's.
func mine(verb rights.Verb, whole *Endpoint) *Endpoint {
	of, do := *whole, whole.do
	about := "; a task that the caller has submitted"
	if verb.Access() == rights.Answering {
		about = "; a task that asks the caller by name"
	}
	of.Verb, of.About, of.Routes, of.Asked, of.Tool, of.Command, of.Button = verb, of.About+about, nil, nil, nil, nil, nil
	of.do = func(s *Service, ctx context.Context, body []byte) (any, error) {
		if err := s.owns(ctx, verb, body); err != nil {
			return nil, err
		}
		return do(s, ctx, body)
	}
	return &of
}

// Owns refuses a request, by a verb of [rights.Verb.Own], about a task that neither the caller has submitted nor, with
// children, one above it; or that does not ask for its answer. The error wraps [ErrRole], or is that of a request
// without such a task.
func (d *Desk) Owns(ctx context.Context, caller string, verb rights.Verb, body []byte) error {
	return d.service.as(caller).owns(ctx, verb, body)
}

func (s *Service) owns(ctx context.Context, verb rights.Verb, body []byte) error {
	var about struct{ ID, Name string }
	_ = json.Unmarshal(body, &about) // whatever else is wrong with it is said by who answers
	id, err := task.ParseID(about.ID)
	if err != nil {
		return badRequest{err}
	}
	if verb.Access() == rights.Answering {
		asked, err := s.Client.Asked(ctx, id, about.Name)
		if err == nil && !asked {
			err = fmt.Errorf("%w: task %s asks others for its approval", ErrRole, id)
		}
		return err
	}
	mine, err := s.Client.Submitted(ctx, id)
	if err == nil && !mine {
		err = fmt.Errorf("%w: task %s was submitted by somebody else", ErrRole, id)
	}
	return err
}

// progress returns the progress of the running ones among tasks: the reports of their programs, and
// the state of the children of parents.
func (s *Service) progress(ctx context.Context, tasks []task.Task) (map[task.ID]*output.Live, map[task.ID]*client.Whole, error) {
	wholes := map[task.ID]*client.Whole{}
	var running []task.ID
	for i := range tasks {
		t := &tasks[i]
		switch {
		case !t.Live():
		case t.Children == nil:
			running = append(running, t.ID)
		default:
			ends, _, err := s.Model.Ends(ctx, slices.Collect(maps.Values(birth.ChildIDs(t))))
			if err != nil {
				return nil, nil, err
			}
			whole := client.WholeOf(t, ends)
			wholes[t.ID] = &whole
		}
	}
	if len(running) == 0 {
		return nil, wholes, nil
	}
	said, err := s.Client.Store().LiveAll(ctx, running)
	if err != nil {
		return nil, nil, err
	}
	live := map[task.ID]*output.Live{}
	for i := range tasks {
		if l, ok := said[tasks[i].ID]; ok && l.Epoch == tasks[i].Epoch {
			live[l.Task] = &l
		}
	}
	return live, wholes, nil
}

// Hook makes a task of a job from what a webhook has sent; nil if the condition of the job does not hold for that.
// The same delivery makes no second task for a day; "" is for one that nobody repeats. [ProblemOf] explains the error.
func (d *Desk) Hook(ctx context.Context, caller, name, delivery string, body []byte) (*client.Receipt, error) {
	s, err := d.sit(caller, len(body))
	if err != nil {
		return nil, err
	}
	defer d.leave(s)
	ctx, cancel := context.WithTimeout(context.WithValue(ctx, seatKey{}, s), patience)
	defer cancel()
	own := d.service.as(caller)
	of, err := own.Client.Job(ctx, name)
	if err != nil {
		return nil, d.blame(err)
	}
	made, err := hooked(&of.Job, delivery, body, d.service.Client.Now())
	if errors.Is(err, condition.ErrUnmet) {
		return nil, nil
	}
	if err != nil {
		return nil, badRequest{err}
	}
	r, err := own.Client.Submit(ctx, made)
	return &r, d.blame(err)
}

// hookAgain is for how long a delivery makes no second task.
const hookAgain = 24 * time.Hour

// hooked returns the submission that follows from a webhook.
func hooked(of *job.Job, delivery string, body []byte, now time.Time) (birth.Submission, error) {
	s, err := condition.Triggered(of, body, condition.Message{})
	if err != nil {
		return s, fmt.Errorf("the body: %w", err)
	}
	err = Once(&s, of, delivery, now)
	return s, err
}

// Once gives a submission an identity, so that the same delivery makes no second task for a day; "" is for
// one that nobody repeats.
func Once(s *birth.Submission, of *job.Job, delivery string, now time.Time) error {
	if delivery == "" {
		return nil
	}
	sum := sha256.Sum256([]byte("hook/" + of.Name + "/" + delivery))
	if of.Lock().Key == "" {
		s.Unique = &job.Unique{Key: "hook:" + hex.EncodeToString(sum[:16]), While: value.StateNames[1:], TTL: value.Duration(hookAgain), OnConflict: job.ConflictReturn}
		return nil
	}
	// The job has a key of its own, so the id tells that it is the same: for the rest of the day.
	var id ulid.ULID
	if err := id.SetTime(ulid.Timestamp(now.UTC().Truncate(hookAgain))); err != nil {
		return err
	}
	copy(id[6:], sum[:])
	s.ID = task.ID(id.String())
	return nil
}
