package httpapi

import (
	"context"
	"errors"
	"math"
	"net/http"
	"strconv"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"millrace/service/answers"
)

const (
	// heldFor is how long a request of a caller that asks too often is held before it is refused.
	heldFor = time.Second
	// burstFor is for how many seconds of its rate a caller may ask at once.
	burstFor = 10
	// strangersRate is how many requests a second callers from one address may send that the server
	// does not know.
	strangersRate = 20
	// mostPaced is how many callers are remembered before those at rest are forgotten.
	mostPaced = 1000
)

// rates bounds how often each caller may ask, so that one that floods leaves the processors to
// others. A request that comes too early is held until its turn.
type rates struct {
	limit float64 // requests a second of one caller; 0 for no bound

	mu sync.Mutex
	of map[string]*rate.Limiter // guarded by mu; by caller
}

// admit returns when it is the caller's turn. If that takes longer than a request is held, the error
// wraps [answers.TooOften]; if ctx ends first, ctx's error.
func (s *rates) admit(ctx context.Context, caller string) error {
	if s.limit == 0 {
		return nil
	}
	turn := s.limiter(caller).Reserve()
	wait := turn.Delay()
	if wait <= 0 {
		return nil
	}
	select {
	case <-time.After(min(wait, heldFor)):
	case <-ctx.Done():
		turn.Cancel()
		return ctx.Err()
	}
	if wait <= heldFor {
		return nil
	}
	turn.Cancel() // the turn is for others of the caller's requests
	return &answers.TooOften{Caller: caller, Rate: s.limit, After: wait - heldFor}
}

func (s *rates) limiter(caller string) *rate.Limiter {
	s.mu.Lock()
	defer s.mu.Unlock()
	l := s.of[caller]
	if l == nil {
		if s.of == nil {
			s.of = map[string]*rate.Limiter{}
		}
		burst := max(int(s.limit*burstFor), 1)
		if len(s.of) >= mostPaced {
			for name, is := range s.of {
				if is.Tokens() >= float64(burst) {
					delete(s.of, name)
				}
			}
		}
		l = rate.NewLimiter(rate.Limit(s.limit), burst)
		s.of[caller] = l
	}
	return l
}

// caller authenticates the sender of a request, and holds the request until it is the caller's turn.
func (s *Server) caller(r *http.Request) (Caller, error) {
	c, err := s.who(r)
	if err != nil {
		return c, s.unknown(r, err)
	}
	known(r)
	return c, s.rates.admit(r.Context(), c.Name)
}

// unknown holds the request of an unknown caller until it is the turn of where it comes from, and
// returns why it is refused.
func (s *Server) unknown(r *http.Request, err error) error {
	from := peerOf(r)
	if net, err := from.Prefix(64); err == nil && from.Is6() { // one machine has all of its addresses
		from = net.Addr()
	}
	if often := s.strangers.admit(r.Context(), from.String()); often != nil {
		return often
	}
	return err
}

// Later tells the sender of a refused request when to ask again, if that may help. The connection of
// an unknown caller ends with the answer.
func Later(h http.Header, status int, err error) {
	if status == http.StatusUnauthorized {
		h.Set("Connection", "close")
	}
	after := time.Second
	if often, ok := errors.AsType[*answers.TooOften](err); ok {
		after = often.After
	}
	if status == http.StatusServiceUnavailable || status == http.StatusTooManyRequests {
		h.Set("Retry-After", strconv.Itoa(max(int(math.Ceil(after.Seconds())), 1)))
	}
}
