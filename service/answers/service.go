package answers

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/micro"

	"millrace/events/jet/rights"
	"millrace/history/replay"
	"millrace/projections"
	"millrace/projections/view"
	"millrace/service/client"
	"millrace/task"
	"millrace/task/duties"
	"millrace/task/node"
)

// Bounds of an answer.
const (
	// patience is how long a request may take, even if it waits.
	patience = rights.AnswerTime
	// watchFor is how long a list waits for a change, if asked to.
	watchFor = 20 * time.Second
)

// Service answers requests within one server process. Several answer side by side; each request
// goes to one of them.
type Service struct {
	Conn    *nats.Conn
	Client  *client.Client
	Model   Model
	Version string // the program's
	// Rules are the numbers by which it judges what must happen to a task.
	Rules duties.Settings
	// Margin is how long after a deadline its fact may come. Default: that of [verify.Config].
	Margin time.Duration
	// Limited says for log.replay what a task waits for that only its limits hold, naming Holders of
	// each. Default: that they hold it.
	Limited replay.LimitWords
	Holders int
	// Nodes are the numbers by which it judges what must happen to a node.
	Nodes node.Settings
	// Now is the time by which heartbeats are late. Default: Client's.
	Now func() time.Time
	// Limits knows which tasks wait for which limits. Default: unknown.
	Limits Limits
	// Deadlines knows which tasks are overdue. Default: unknown.
	Deadlines Deadlines
	// Watched is since when all present schedulers watch; see [duties.Settings]. Default: unknown.
	Watched func() time.Time
	// Settings are the texts of those settings of the process by which Rules, Margin and Nodes came
	// about, for whoever judges elsewhere. Default: none.
	Settings map[string]string
	// Keeping are the texts of the settings by which this server keeps what has ended. Default: none.
	Keeping map[string]string
	// Held tells what has held the horizon of the log back when this process last looked, and when that
	// was; zero for never. Default: unknown.
	Held func() (hold client.HorizonHold, at time.Time)
	// Stored gives the rows of the read model. Default: none.
	Stored Stored
	// Wrong returns why the log takes no messages; nil if it does. Default: unknown.
	Wrong func() error
	// Desk answers the requests, if they also come by other ways than NATS. Default: a desk for
	// NATS alone.
	Desk *Desk
	// Say and Note tell the user of a command, which acts as a service of its own, what was done to a
	// thing, and what besides. Default: nobody listens.
	Say, Note func(line string)
	// Ready is called once, when the service answers. Default: no call.
	Ready func()
	Log   *slog.Logger

	verifying chan struct{} // the one place for reading the whole log
	// stepped is the span that was stepped through last. It belongs to who has that place.
	stepped *kept
}

// Deadlines knows which tasks are overdue.
type Deadlines interface {
	// Due returns at most most tasks whose own deadline has passed at a time, the longest overdue first.
	Due(ctx context.Context, at time.Time, most int) ([]task.ID, error)
}

// Model is the read model behind the answers: a [view.Model] with sums and more.
type Model interface {
	view.Model
	view.Summed
	// Reached is the sequence that answers reflect; Wait waits for at least a sequence, News for a
	// later one.
	Reached() uint64
	Wait(ctx context.Context, seq uint64) error
	News(ctx context.Context, seq uint64) error
	// Ends returns how tasks stand.
	Ends(ctx context.Context, ids []task.ID) (map[task.ID]task.End, uint64, error)
	// At returns what it knows of a place in the log; log reads the messages that it refers to.
	At(p view.Point, log projections.Log) view.Whole
}

// Stored is a read model that gives its rows as it stores them.
type Stored interface {
	// Rows returns a page of all tasks. Of the filter only After, OldestFirst and Limit count.
	Rows(ctx context.Context, f view.Filter) (view.Rows, error)
}

// Tracer is an optional part of what is summed up: it knows where in the log tasks failed and which messages
// a [view.Trace] may choose.
type Tracer interface {
	// LastFailed returns at most most tasks that have failed, those that failed last first.
	LastFailed(ctx context.Context, most int) ([]task.Task, error)
	// Traces returns the sequences of the latest messages before a sequence that may be chosen, at
	// most most, the latest first; with OldestFirst those of the earliest after it, the earliest
	// first. It leaves out none that is chosen, but the messages have to be read to know. The error
	// wraps [view.ErrUnindexed] if it does not know.
	Traces(ctx context.Context, c view.Trace, beyond uint64, most int) ([]uint64, error)
}

// view returns a view of the present.
func (s *Service) view() client.Present { return s.Client.ViewOf(s.Model) }

// Run answers requests until ctx ends and the last request is answered.
func (s *Service) Run(ctx context.Context) error {
	svc, err := micro.AddService(s.Conn, micro.Config{
		Name: "millrace", Version: semantic(s.Version),
		Description: "submit, look at and cancel tasks, see to nodes; docs/nats-cli.md has examples",
		Metadata:    map[string]string{"millrace": "1"},
	})
	if err != nil {
		return fmt.Errorf("service: %w", err)
	}
	own := s.Desk
	if own == nil {
		own = NewDesk(s)
	}
	desk := &natsDesk{Desk: own, ctx: ctx, limit: int(s.Conn.MaxPayload()), log: cmp.Or(s.Log, slog.New(slog.DiscardHandler))}
	if err := s.listen(svc, desk); err != nil {
		return errors.Join(fmt.Errorf("service: %w", err), svc.Stop())
	}
	unlisten, err := s.refuseMisaddressed(desk)
	if err != nil {
		return errors.Join(fmt.Errorf("service: %w", err), svc.Stop())
	}
	defer unlisten()
	if s.Ready != nil {
		// If the server cannot be reached, no client can ask either.
		_ = s.Conn.FlushTimeout(patience)
		s.Ready()
	}
	<-ctx.Done()
	err = svc.Stop()
	desk.working.Wait()
	return err
}

// semantic returns a version in the form that NATS services need: 0.0.0 for one of no release.
func semantic(version string) string {
	v := strings.TrimPrefix(version, "v")
	if v == "" || v[0] < '0' || v[0] > '9' {
		return "0.0.0"
	}
	return v
}

// health answers without asking the log.
func (s *Service) health(_ context.Context, _ nothing) (client.Health, error) {
	h := client.Health{Settings: s.Settings, Import: s.Client.Store().Import()}
	if s.Wrong != nil {
		if err := s.Wrong(); err != nil {
			h.Log = err.Error()
		}
	}
	h.Watched = s.watched()
	return h, nil
}

// horizon says where the log begins. What a server has not done yet of its last move, another one
// does.
func (s *Service) noteArchive(ctx context.Context, r client.ArchiveNote) (client.ArchiveNote, error) {
	if r.Archive == "" || len(r.Segments) == 0 {
		return r, badRequest{errors.New("an archive and its segments are wanted")}
	}
	return r, s.Client.NoteArchive(ctx, r)
}

func (s *Service) horizon(ctx context.Context, _ nothing) (client.Horizon, error) {
	store := s.Client.Store()
	h := client.Horizon{Settings: s.Keeping}
	records, err := store.Horizon(ctx)
	if err != nil {
		return h, err
	}
	var is task.Horizon
	for i := range records {
		r := &records[i]
		e, ok := r.Fact.Event.(task.HorizonEvent)
		if !ok || r.Err != nil {
			continue
		}
		was := max(is.Below, 1)
		is = task.EvolveHorizon(is, r.Seq, r.Fact.At, e)
		if kind, step, _ := strings.Cut(string(r.Fact.Type), "."); kind == "horizon" {
			h.Step = step
		}
		switch e := e.(type) {
		case task.HorizonChosen:
			h.Why, h.Carried, h.Passed = e.Why, 0, is.Below-min(was, is.Below)
		case task.HorizonCarried:
			h.Carried = e.Chains
		}
	}
	h.Below, h.Before, h.Since = is.Below, is.Before, is.Since
	if h.First, err = store.First(ctx); err != nil {
		return h, err
	}
	if first, found, err := store.Message(ctx, h.First); err == nil && found {
		h.Oldest = first.Stored
	}
	if h.Last, err = store.Last(ctx); err != nil {
		return h, err
	}
	if s.Held != nil {
		var by client.HorizonHold
		if by, h.Looked = s.Held(); by.Seq > 0 {
			h.Held = &by
		}
	}
	floor, err := store.Floor(ctx)
	if err == nil && floor.Seq > 0 {
		h.Holds = &client.HorizonHold{By: "offer", What: "an offer that is out or waits", Seq: floor.Seq, Task: floor.Holder, Since: floor.Since}
	}
	return h, err
}

// watched is zero if it is unknown since when schedulers watch.
func (s *Service) watched() time.Time {
	if s.Watched == nil {
		return time.Time{}
	}
	return s.Watched()
}
