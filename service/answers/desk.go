package answers

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"sync"
	"time"

	"github.com/nats-io/nats.go/micro"
	"golang.org/x/sync/semaphore"

	"millrace/events"
	"millrace/events/jet/rights"
	"millrace/task"
)

// Bounds of the requests that the service handles at one time.
const (
	// together is how many requests are answered concurrently, and idle how many more may wait for
	// something to happen: those do not delay requests for what is there.
	together, idle = 64, 256
	// drawnPerCPU is how many pages are drawn concurrently for each processor. Drawing computes all
	// the time, so more of them would only delay each other. Beyond its share a caller waits for
	// heldFor at most.
	drawnPerCPU = 4
	heldFor     = time.Second
	// maxFollowers is how many callers may follow something.
	maxFollowers = 2048
	// LargestRequest is how many bytes a request may have: more than the largest submission.
	// Requests being answered have at most requestBytes together; one that waits has at most
	// patientRequest.
	LargestRequest = 1 << 20
	requestBytes   = 16 << 20
	patientRequest = 64 << 10
)

// Desk answers requests, whichever way they come, and shares the service's capacity fairly among
// callers.
type Desk struct {
	service  *Service
	places   *semaphore.Weighted // of requests being answered; earlier waiters go first
	answered share
	waiting  share
	bytes    share // of requests being answered
	drawn    share // of pages being drawn
	// computed has the callers for whom an answer is made that takes the processors.
	computed sync.Map
	// following counts the callers that follow something.
	following share
}

// NewDesk returns the desk of a service. All ways by which requests come share one desk.
func NewDesk(s *Service) *Desk {
	s.verifying, s.stepped = make(chan struct{}, 1), new(kept)
	return &Desk{
		service:   s,
		places:    semaphore.NewWeighted(together),
		bytes:     share{limit: requestBytes},
		drawn:     share{limit: drawnPerCPU * max(runtime.GOMAXPROCS(0), 2)},
		answered:  share{limit: together},
		waiting:   share{limit: idle},
		following: share{limit: maxFollowers},
	}
}

// share counts places, or bytes, by caller.
type share struct {
	limit int

	mu    sync.Mutex
	taken int            // guarded by mu
	by    map[string]int // guarded by mu
	freed chan struct{}  // guarded by mu; closed when something is given back, nil if no request waits for that
}

// admits is the rule of fair shares. The caller holds mine of taken and wants n more. While half is
// free every caller gets it; of the other half only callers with at most a quarter of all. So one
// caller alone never takes more than half.
func admits(taken, mine, n, limit int) bool {
	return taken+n <= limit && (taken+n <= limit/2 || mine+n <= limit/4)
}

// take gives n to the caller, if its share allows.
func (s *share) take(caller string, n int) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !admits(s.taken, s.by[caller], n, s.limit) {
		return false
	}
	s.add(caller, n)
	return true
}

// add is called with mu held.
func (s *share) add(caller string, n int) {
	if s.by == nil {
		s.by = map[string]int{}
	}
	s.taken += n
	if s.by[caller] += n; s.by[caller] == 0 {
		delete(s.by, caller)
	}
}

// again gives n back to a caller that has had it before, whatever its share.
func (s *share) again(caller string, n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.add(caller, n)
}

func (s *share) leave(caller string, n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.add(caller, -n)
	if s.freed != nil {
		close(s.freed)
		s.freed = nil
	}
}

// next is closed when something is given back from now on.
func (s *share) next() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.freed == nil {
		s.freed = make(chan struct{})
	}
	return s.freed
}

// busy is the error of a request that must wait for others.
type busy struct{ what string }

func (b busy) Error() string { return b.what + ": try again" }

// Busy returns an error that refuses a request because other callers take all capacity.
func Busy(what string) error { return busy{what} }

// seat is a request's place at the desk.
type seat struct {
	desk   *Desk
	caller string
	size   int
	while  func(*task.Task) bool // how a task must be that is changed; nil for no matter how
}

type seatKey struct{}

// waits lets a request wait for something. Meanwhile the request gives up its place, so that others
// are answered, and takes one of the places for waiting.
func waits(ctx context.Context, wait func(context.Context) error) error {
	s, ok := ctx.Value(seatKey{}).(*seat)
	if !ok { // not at a desk: there are no others
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
	if s.size > LargestRequest {
		return tooLarge{fmt.Errorf("the request has %d bytes, and the service takes %d; files and records go other ways", s.size, LargestRequest)}
	}
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

// Draw has draw compute a page for a caller, once the caller's share of the processors allows it. If
// that takes too long, the error is as of [Busy]; if ctx ends first, it is ctx's.
func (d *Desk) Draw(ctx context.Context, caller string, draw func() error) error {
	if err := d.held(ctx, caller); err != nil {
		return err
	}
	defer d.drawn.leave(caller, 1)
	return draw()
}

// held takes one of the places for drawing, and waits for it if need be.
func (d *Desk) held(ctx context.Context, caller string) error {
	if d.drawn.take(caller, 1) {
		return nil
	}
	if !d.waiting.take(caller, 1) {
		return busy{fmt.Sprintf("%d requests wait for something, or too many of this connection", idle)}
	}
	defer d.waiting.leave(caller, 1)
	held := time.NewTimer(heldFor)
	defer held.Stop()
	for {
		freed := d.drawn.next()
		if d.drawn.take(caller, 1) {
			return nil
		}
		select {
		case <-freed:
		case <-held.C:
			return busy{fmt.Sprintf("%d pages are being drawn, or too many of this connection", d.drawn.limit)}
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// back takes the place again that a request has given up. The others leave theirs within moments.
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

// Answer answers a request of a caller, whose name is recorded in all facts that follow.
// [ProblemOf] explains the error.
func (d *Desk) Answer(ctx context.Context, caller string, e *Endpoint, body []byte) (any, error) {
	return d.seated(ctx, &seat{desk: d, caller: caller}, e, body)
}

func (d *Desk) seated(ctx context.Context, s *seat, e *Endpoint, body []byte) (any, error) {
	s.size = len(body)
	if err := d.enter(s); err != nil {
		return nil, err
	}
	defer d.leave(s)
	return d.answer(ctx, s, e, body)
}

// sit takes a place for a request of size bytes; the caller must leave it.
func (d *Desk) sit(caller string, size int) (*seat, error) {
	s := &seat{desk: d, caller: caller, size: size}
	return s, d.enter(s)
}

func (d *Desk) answer(ctx context.Context, s *seat, e *Endpoint, body []byte) (any, error) {
	ctx, cancel := context.WithTimeout(context.WithValue(ctx, seatKey{}, s), patience)
	defer cancel()
	var answer any
	do := func() (err error) {
		own := d.service.as(s.caller)
		if s.while != nil {
			own.Client = own.Client.While(s.while)
		}
		answer, err = e.do(own, ctx, body)
		return err
	}
	if e.computes {
		one := do
		do = func() error { return d.alone(ctx, s.caller, one) }
	}
	if err := do(); err != nil {
		return nil, d.blame(err)
	}
	return answer, nil
}

// alone has compute make an answer for a caller that is given no other such answer meanwhile.
func (d *Desk) alone(ctx context.Context, caller string, compute func() error) error {
	if _, taken := d.computed.LoadOrStore(caller, true); taken {
		return busy{"an answer that takes the processors is being made for this caller"}
	}
	defer d.computed.Delete(caller)
	return d.Draw(ctx, caller, compute)
}

// blame adds what is wrong with the log to an error that may come from it.
func (d *Desk) blame(err error) error {
	if d.service.Wrong == nil || !errors.Is(err, events.ErrUnknown) && !errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	if why := d.service.Wrong(); why != nil {
		return fmt.Errorf("%w (%w)", why, err)
	}
	return err
}

// natsDesk is a desk for requests over NATS.
type natsDesk struct {
	*Desk
	ctx     context.Context // of the service
	working sync.WaitGroup
	limit   int // bytes that an answer may have
	log     *slog.Logger
}

// handler passes requests to goroutines, so that a slow one delays no other: the service calls its
// handlers one after the other.
func (d *natsDesk) handler(e *Endpoint) micro.Handler {
	return micro.HandlerFunc(func(r micro.Request) {
		if !rights.Answerable(r.Reply()) {
			d.log.Warn("a request wants its answer where no answer may go; it is not heard", "subject", r.Subject(), "reply", r.Reply())
			return
		}
		caller, err := rights.CallerOf(r.Subject())
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
