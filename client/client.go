package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/user"
	"slices"
	"time"

	"github.com/nats-io/nats.go"
	"golang.org/x/sync/errgroup"

	"millrace/events"
	"millrace/jet"
	"millrace/node"
	"millrace/task"
)

// Options say how to reach the NATS server that holds Millrace, in the words of
// the nats command line. See [jet.ConnectConfig] for each field.
type Options = jet.ConnectConfig

// Client speaks to Millrace. It is safe for concurrent use.
type Client struct {
	store *jet.Store
	rec   *events.Recorder
	own   *nats.Conn // closed by Close; nil if the store is the caller's

	bounds bounds
}

// Connect connects to a NATS server and opens the log in it. The error says what
// could not be reached; it wraps [jet.ErrNoMillrace] if no log is there.
func Connect(ctx context.Context, o Options) (*Client, error) {
	nc, err := jet.Connect(o)
	if err != nil {
		return nil, err
	}
	store, err := jet.Attach(ctx, nc)
	if err != nil {
		nc.Close()
		return nil, err
	}
	c := New(store, "")
	c.own = nc
	return c, nil
}

// New returns a client of a store that is open already and stays the caller's.
// Actor is who it acts for; by default the user and host of this process.
func New(store *jet.Store, actor string) *Client {
	if actor == "" {
		actor = whoami()
	}
	return &Client{store: store, rec: &events.Recorder{Log: store, Actor: actor, Now: time.Now, NewID: events.NewID}}
}

// Store is what the client works on; a worker takes it.
func (c *Client) Store() *jet.Store { return c.store }

// Close ends what Connect began.
func (c *Client) Close() {
	if c.own == nil {
		return
	}
	c.store.Close()
	c.own.Close()
}

func whoami() string {
	name := "unknown"
	if u, err := user.Current(); err == nil {
		name = u.Username
	}
	host, err := os.Hostname()
	if err != nil {
		host = "localhost"
	}
	return name + "@" + host
}

// InBatch returns a client on the same connection whose facts about tasks name a
// bulk command as their first cause, so that [ListRequest.Batch] finds what it touched.
func (c *Client) InBatch(id string) *Client {
	rec := *c.rec
	rec.Corr = id
	return &Client{store: c.store, rec: &rec}
}

// ErrInvalid refuses a submission that is wrong in itself.
var ErrInvalid = errors.New("invalid submission")

// Receipt says where a submission went.
type Receipt struct {
	ID task.ID `json:"id"`
	// Seq is the sequence of the birth; an answer that reflects it knows the task.
	Seq uint64 `json:"seq"`
	// Existing is whether it is another task that has the unique key of what was submitted.
	Existing bool `json:"existing,omitempty"`
}

// Submit makes a task. When it returns without an error the task is in the log
// and will come to an end.
//
// The error wraps [ErrInvalid] if a field is wrong, [jet.ErrNoJob] if the job is not there, [events.ErrTooLarge]
// if the parameters are too large, a [*events.Taken] if another task has its unique key, [task.ErrQueueFull] if as many tasks wait in the queue as may, ctx's if it ended before the log answered;
// then the task may exist, and submitting again under the same ID is safe.
func (c *Client) Submit(ctx context.Context, s task.Submission) (Receipt, error) {
	id, birth, err := c.birth(ctx, s)
	if err != nil {
		return Receipt{}, err
	}
	if s.ID != "" {
		// A name that somebody chose may be there already.
		records, err := c.store.Task(ctx, id)
		if err != nil {
			return Receipt{}, fmt.Errorf("submit: %w", err)
		}
		if len(records) > 0 {
			return Receipt{ID: id, Seq: records[0].Seq}, nil
		}
	}
	if _, err := c.room(ctx, &birth); err != nil {
		return Receipt{}, err
	}
	seq, err := c.rec.Submit(ctx, id, birth)
	if err == nil && birth.Spec.Parental() && len(birth.Holds) == 0 {
		born := task.Evolve(task.Task{ID: id}, task.Recorded{Seq: seq, At: time.Now(), Event: birth})
		if _, err = c.expand(ctx, born); err != nil {
			err = fmt.Errorf("task %s is submitted, and a scheduler makes its children, for this process could not: %w", id, err)
		}
	}
	var taken *events.Taken
	if errors.As(err, &taken) && birth.Spec.Unique.OnConflict == task.ConflictReturn {
		records, err := c.store.Task(ctx, taken.Holder)
		if err != nil || len(records) == 0 {
			return Receipt{}, fmt.Errorf("submit: %w", errors.Join(err, taken))
		}
		return Receipt{ID: taken.Holder, Seq: records[0].Seq, Existing: true}, nil
	}
	return Receipt{ID: id, Seq: seq}, err
}

func (c *Client) birth(ctx context.Context, s task.Submission) (task.ID, task.Submitted, error) {
	id := s.ID
	if id == "" {
		id = task.ID(events.NewID(time.Now()))
	} else if parsed, err := task.ParseID(string(id)); err != nil {
		return "", task.Submitted{}, fmt.Errorf("submit: %w: %w", ErrInvalid, err)
	} else {
		id = parsed
	}
	var job *task.Job
	var revision uint64
	if s.Job != "" {
		stored, err := c.store.Job(ctx, s.Job)
		if err != nil {
			return "", task.Submitted{}, fmt.Errorf("submit: %w", err)
		}
		job, revision = &stored.Job, stored.Revision
	}
	job, err := c.pinSteps(ctx, &s, job)
	if err != nil {
		return "", task.Submitted{}, fmt.Errorf("submit: %w", err)
	}
	if f := filesOf(&s, job); f != nil {
		pinned, err := c.pinned(ctx, f)
		if err != nil {
			return "", task.Submitted{}, fmt.Errorf("submit: %w", err)
		}
		s.Files = pinned
	}
	birth, err := task.Birth(s, job, revision, time.Now())
	if err != nil {
		return "", birth, fmt.Errorf("submit: %w: %w", ErrInvalid, err)
	}
	return id, birth, nil
}

// SubmitMany makes n equal tasks at once, far faster than one by one, and calls
// each with every receipt, in order. Its error is the first that occurred;
// tasks before and after it may exist.
func (c *Client) SubmitMany(ctx context.Context, s task.Submission, n int, each func(Receipt)) error {
	if s.ID != "" {
		return errors.New("submit: many tasks cannot have one id")
	}
	_, birth, err := c.birth(ctx, s)
	if err != nil {
		return err
	}
	if birth.Spec.Parental() {
		for ; n > 0; n-- {
			receipt, err := c.Submit(ctx, s)
			if err != nil {
				return err
			}
			if each != nil {
				each(receipt)
			}
		}
		return nil
	}
	if key, err := birth.UniqueKey(); err != nil {
		return fmt.Errorf("submit: %w: %w", ErrInvalid, err)
	} else if key != "" {
		return fmt.Errorf("submit: %w: many equal tasks cannot have one unique key (%q)", ErrInvalid, key)
	}
	var same task.Event = birth // made once: it is large
	for n > 0 && err == nil {
		room, full := c.room(ctx, &birth)
		if full != nil {
			return full
		}
		if room < 0 {
			room = submitPart
		}
		facts := make([]*events.Fact, min(n, submitPart, room))
		for i := range facts {
			facts[i] = c.rec.Fact(task.ID(events.NewID(time.Now())), same)
		}
		err = c.place(ctx, facts, each)
		n -= len(facts)
	}
	return err
}

// SubmitAll makes tasks at once, in this order, far faster than one by one: the steps of
// a graph, for example, where one needs the ID of another before that exists. It
// calls each with every receipt, in order. Nothing is submitted if one of them is
// wrong; any other error is the first that occurred, and tasks before and after it
// may exist. An ID that is set must be new: see [events.NewID].
func (c *Client) SubmitAll(ctx context.Context, all []task.Submission, each func(Receipt)) error {
	facts := make([]*events.Fact, len(all))
	for i, s := range all {
		id, birth, err := c.birth(ctx, s)
		if err != nil {
			return fmt.Errorf("task %d of %d: %w", i+1, len(all), err)
		}
		facts[i] = c.rec.Fact(id, birth)
	}
	for some := range slices.Chunk(facts, submitPart) {
		if err := c.place(ctx, some, each); err != nil {
			return err
		}
	}
	return nil
}

// place records births, and arms the timers of those that are due later, several at once.
func (c *Client) place(ctx context.Context, births []*events.Fact, each func(Receipt)) error {
	seqs, errs := make([]uint64, len(births)), make([]error, len(births))
	var settling errgroup.Group
	settling.SetLimit(atOnce)
	c.store.PlaceAll(ctx, births, func(i int, seq uint64, err error) {
		f := births[i]
		birth := f.Event.(task.Submitted)
		if errors.Is(err, events.ErrUnknown) && ctx.Err() == nil {
			seq, err = c.rec.Submit(ctx, f.Task, birth)
		}
		seqs[i], errs[i] = seq, err
		if err == nil && !birth.Offers() {
			settling.Go(func() error {
				errs[i] = c.rec.SettleBirth(ctx, f, seq)
				return nil
			})
		}
	})
	_ = settling.Wait() // errs has what went wrong
	for i, err := range errs {
		if err == nil && each != nil {
			each(Receipt{ID: births[i].Task, Seq: seqs[i]})
		}
	}
	return errors.Join(errs...)
}

// submitPart is how many births are made and then placed at a time. Nothing is on
// its way between two parts, so a small one is slow.
const submitPart = 16_384

// Task reads a task from the log. The error wraps [task.ErrUnknown] if there is none.
func (c *Client) Task(ctx context.Context, id task.ID) (task.Task, error) {
	return c.rec.Load(ctx, id)
}

// History reads all facts of a task in order. The error wraps [task.ErrUnknown]
// if there is no such task.
func (c *Client) History(ctx context.Context, id task.ID) ([]events.Record, error) {
	records, err := c.store.Task(ctx, id)
	if err == nil && len(records) == 0 {
		err = fmt.Errorf("task %s: %w", id, task.ErrUnknown)
	}
	return records, err
}

// Cancel asks for a task's end. A task that waits is cancelled when Cancel
// returns; one that runs is cancelling, and cancelled when its end was seen.
// The error wraps [task.ErrUnknown] or [task.ErrEnded].
func (c *Client) Cancel(ctx context.Context, id task.ID, reason string) (task.Task, error) {
	t, err := c.rec.Load(ctx, id)
	if err != nil {
		return t, err
	}
	return c.CancelKnown(ctx, t, reason)
}

// CancelKnown is [Client.Cancel] of a task as a list has it, which saves reading it: what
// has changed since is read, and decided anew, only if the log says that something has.
func (c *Client) CancelKnown(ctx context.Context, was task.Task, reason string) (task.Task, error) {
	t, event, err := c.rec.Do(ctx, was, task.Cancel{Reason: reason})
	if err != nil {
		return t, fmt.Errorf("cancel task %s: %w", t.ID, err)
	}
	switch event.(type) {
	case task.CancelRequested:
		if t.Epoch == 0 {
			return t, c.cancelChildren(ctx, &t)
		}
		err = c.store.Hint(node.ID(t.Node), t.ID)
	case task.CancelConfirmed:
		if was.State != task.Pending || !was.Offered { // else it has no timer
			err = c.store.Disarm(ctx, t.ID, t.Head) // else the timer's offer dies at its claim
		}
	}
	return t, err
}

// Retry gives a task that has ended another life, from its first attempt on. With a parent those
// of its children get one that did not finish, and with a child its parent, and the steps that were skipped
// for its sake. The error wraps [task.ErrUnknown] or [task.ErrRunning], or a [*events.Taken] if its unique key,
// or that of its parent, has been taken by another task.
func (c *Client) Retry(ctx context.Context, id task.ID, reason string) (task.Task, error) {
	t, err := c.rec.Load(ctx, id)
	if err != nil {
		return t, err
	}
	var parents []task.Task
	if t.State.Terminal() { // else it is refused
		if parents, err = c.parents(ctx, &t); err == nil {
			err = c.reopenParents(ctx, parents)
		}
		if err != nil {
			return t, fmt.Errorf("retry task %s: %w", id, err)
		}
	}
	if t, err = c.reopen(ctx, t, reason); err != nil {
		return t, err
	}
	return t, c.follow(ctx, t.ID, parents, reason)
}

// Copy makes a new task that does what a task does, as far as s does not change
// it; see [task.Copy]. The other stays as it is. The error wraps [task.ErrUnknown] if there
// is no such task and [ErrInvalid] if a change is wrong.
func (c *Client) Copy(ctx context.Context, of task.ID, s task.Submission) (Receipt, error) {
	t, err := c.rec.Load(ctx, of)
	if err != nil {
		return Receipt{}, err
	}
	birth, err := task.Copy(t, s, time.Now())
	if err != nil {
		return Receipt{}, fmt.Errorf("copy: %w: %w", ErrInvalid, err)
	}
	id := task.ID(events.NewID(time.Now()))
	seq, err := c.rec.Submit(ctx, id, birth)
	return Receipt{ID: id, Seq: seq}, err
}

// Signal gives the signal that a task waits for, with data (JSON, or nil), which it is
// told. The error wraps [task.ErrUnknown], [task.ErrEnded] or [task.ErrNotHeld].
func (c *Client) Signal(ctx context.Context, id task.ID, data json.RawMessage, reason string) (task.Task, error) {
	t, err := c.rec.Load(ctx, id)
	if err != nil {
		return t, err
	}
	var signal *task.Signal
	if t.Spec != nil {
		signal = t.Spec.Signal
	}
	inputs, err := signal.Inputs(c.rec.Actor, data)
	if err != nil {
		return t, fmt.Errorf("signal task %s: %w: %w", id, ErrInvalid, err)
	}
	t, _, err = c.rec.Do(ctx, t, task.Unhold{Hold: task.HoldSignal, Reason: reason, Inputs: inputs})
	if err != nil {
		return t, fmt.Errorf("signal task %s: %w", id, err)
	}
	return t, c.rec.Settle(ctx, &t)
}

// Release moves a task that waits for certain nodes to its shared queue, where
// any node that serves it can take it. The error wraps [task.ErrUnknown],
// [task.ErrEnded], [task.ErrNotWaiting] or [task.ErrShared].
func (c *Client) Release(ctx context.Context, id task.ID, reason string) (task.Task, error) {
	t, err := c.rec.Load(ctx, id)
	if err != nil {
		return t, err
	}
	t, _, err = c.rec.Do(ctx, t, task.Unbind{Reason: reason})
	if err != nil {
		return t, fmt.Errorf("release task %s: %w", id, err)
	}
	return t, c.rec.Settle(ctx, &t)
}
