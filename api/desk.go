package api

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"

	"github.com/nats-io/nats.go/micro"
	"golang.org/x/sync/semaphore"

	"millrace/events"
	"millrace/jet/roles"
)

// Bounds of what the service has in hand.
const (
	// together is how many requests are answered at the same time, and idle how many more may wait for
	// something to happen: those hold up nobody who asks for what is there.
	together, idle = 64, 256
	// maxFollowers is how many may follow something.
	maxFollowers = 2048
	// LargestRequest is how many bytes a request may have: more than the largest submission. Those that are
	// answered have at most requestBytes together; one that waits has patientRequest at most.
	LargestRequest = 1 << 20
	requestBytes   = 16 << 20
	patientRequest = 64 << 10
)

// Desk has requests answered, whichever way they come, and shares what the service has in hand fairly among who asks.
type Desk struct {
	service  *Service
	places   *semaphore.Weighted // of those that are answered; who has waited goes before who comes
	answered share
	waiting  share
	bytes    share // of requests that are answered
	// following are those who are sent what comes.
	following share
}

// NewDesk returns the desk of a service. There is one for all ways by which requests come.
func NewDesk(s *Service) *Desk {
	s.verifying, s.moments = make(chan struct{}, 1), new(moments)
	return &Desk{
		service: s, places: semaphore.NewWeighted(together), bytes: share{limit: requestBytes},
		answered: share{limit: together}, waiting: share{limit: idle}, following: share{limit: maxFollowers},
	}
}

// share counts places, or bytes, and who has them.
type share struct {
	limit int

	mu    sync.Mutex
	taken int            // guarded by mu
	by    map[string]int // guarded by mu
}

// admits is the rule of fair shares, for a caller who has mine of what is taken and wants n more: as long as half
// is free anybody gets it, and of the other half those who have no more than a quarter of all. So one
// alone never takes more than half.
func admits(taken, mine, n, limit int) bool {
	return taken+n <= limit && (taken+n <= limit/2 || mine+n <= limit/4)
}

// take gives n to the caller if he may have that.
func (s *share) take(caller string, n int) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !admits(s.taken, s.by[caller], n, s.limit) {
		return false
	}
	s.add(caller, n)
	return true
}

// add must be called with mu held.
func (s *share) add(caller string, n int) {
	if s.by == nil {
		s.by = map[string]int{}
	}
	s.taken += n
	if s.by[caller] += n; s.by[caller] == 0 {
		delete(s.by, caller)
	}
}

// again gives n to who has had that before, whatever the share.
func (s *share) again(caller string, n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.add(caller, n)
}

func (s *share) leave(caller string, n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.add(caller, -n)
}

// busy refuses a request because of others.
type busy struct{ what string }

func (b busy) Error() string { return b.what + ": try again" }

// Busy is an error that refuses something because of others, who take what there is.
func Busy(what string) error { return busy{what} }

// seat is a request's place at the desk.
type seat struct {
	desk   *Desk
	caller string
	size   int
}

type seatKey struct{}

// waits has a request wait for something. It gives up its place meanwhile, so that others are
// answered, and takes one of those that are meant for waiting.
func waits(ctx context.Context, wait func(context.Context) error) error {
	s, ok := ctx.Value(seatKey{}).(*seat)
	if !ok { // nobody else is there
		return wait(ctx)
	}
	d := s.desk
	if s.size > patientRequest {
		return badRequest{fmt.Errorf("a request that waits has %d bytes at most, and this one %d", patientRequest, s.size)}
	}
	if !d.waiting.take(s.caller, 1) {
		return busy{fmt.Sprintf("%d requests wait for something, or too many of this connection", idle)}
	}
	d.leave(s)
	err := wait(ctx)
	d.waiting.leave(s.caller, 1)
	d.back(s)
	return err
}

// enter takes a place for a request.
func (d *Desk) enter(s *seat) error {
	if !d.bytes.take(s.caller, s.size) {
		return busy{fmt.Sprintf("requests with %d MiB are being answered, or too many of this connection", requestBytes>>20)}
	}
	if d.answered.take(s.caller, 1) {
		if d.places.TryAcquire(1) {
			return nil
		}
		d.answered.leave(s.caller, 1)
	}
	d.bytes.leave(s.caller, s.size)
	return busy{fmt.Sprintf("%d requests are being answered, or too many of this connection", together)}
}

// back takes the place again that a request has left. Each of the others leaves his in a moment.
func (d *Desk) back(s *seat) {
	_ = d.places.Acquire(context.Background(), 1) // it fails only with its context
	d.answered.again(s.caller, 1)
	d.bytes.again(s.caller, s.size)
}

func (d *Desk) leave(s *seat) {
	d.bytes.leave(s.caller, s.size)
	d.answered.leave(s.caller, 1)
	d.places.Release(1)
}

// Answer answers a request of a caller, whose name stands in all facts that come of it. The error is one
// that [ProblemOf] explains.
func (d *Desk) Answer(ctx context.Context, caller string, e *Endpoint, body []byte) (any, error) {
	s, err := d.sit(caller, len(body))
	if err != nil {
		return nil, err
	}
	defer d.leave(s)
	return d.answer(ctx, s, e, body)
}

// sit takes a place for a request of so many bytes, which the caller must leave.
func (d *Desk) sit(caller string, size int) (*seat, error) {
	s := &seat{d, caller, size}
	if size > LargestRequest {
		return nil, tooLarge{fmt.Errorf("the request has %d bytes, and the service takes %d; files and records go other ways", size, LargestRequest)}
	}
	return s, d.enter(s)
}

func (d *Desk) answer(ctx context.Context, s *seat, e *Endpoint, body []byte) (any, error) {
	ctx, cancel := context.WithTimeout(context.WithValue(ctx, seatKey{}, s), patience)
	defer cancel()
	answer, err := e.do(d.service.as(s.caller), ctx, body)
	if err != nil {
		return nil, d.blame(err)
	}
	return answer, nil
}

// blame puts what is wrong with the log in front of an error that may come of it.
func (d *Desk) blame(err error) error {
	if d.service.Wrong == nil || !errors.Is(err, events.ErrUnknown) && !errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	if why := d.service.Wrong(); why != nil {
		return fmt.Errorf("%w (%w)", why, err)
	}
	return err
}

// natsDesk is a desk whose requests come over NATS.
type natsDesk struct {
	*Desk
	ctx     context.Context // of the service's life
	working sync.WaitGroup
	limit   int // bytes of an answer
	log     *slog.Logger
}

// handler hands requests to goroutines, so that a slow one keeps nobody waiting:
// the service itself calls its handlers one after the other.
func (d *natsDesk) handler(e *Endpoint) micro.Handler {
	return micro.HandlerFunc(func(r micro.Request) {
		if !roles.Answerable(r.Reply()) {
			d.log.Warn("a request wants its answer where no answer may go; it is not heard", "subject", r.Subject(), "reply", r.Reply())
			return
		}
		caller, err := roles.CallerOf(r.Subject())
		if err != nil {
			d.refuse(r, badRequest{err})
			return
		}
		body := r.Data()
		s, err := d.sit(caller, len(body))
		if err != nil {
			d.refuse(r, err)
			return
		}
		d.working.Go(func() {
			defer d.leave(s)
			answer, err := d.answer(d.ctx, s, e, body)
			if err != nil {
				d.refuse(r, err)
				return
			}
			text, err := fit(answer, d.limit)
			if err != nil {
				d.refuse(r, err)
				return
			}
			d.respond(r.Respond(text))
		})
	})
}

func (d *natsDesk) refuse(r micro.Request, err error) {
	d.respond(r.Error(codeOf(err), err.Error(), nil))
}

func (d *natsDesk) respond(err error) {
	if err != nil {
		d.log.Debug("an answer could not be sent", "error", err)
	}
}
