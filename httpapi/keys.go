package httpapi

import (
	"context"
	"net/netip"
	"sync"
	"time"

	"millrace/api"
	"millrace/jet/definitions"
)

// keys are what lets callers in: the credential of the machine, and tokens. None is kept but by its hash.
type keys struct {
	machine key

	mu     sync.Mutex
	tokens map[string]*key // guarded by mu; by their hash
}

// key lets a caller in until it is gone.
type key struct {
	token definitions.Token
	life  context.Context
	end   context.CancelFunc
}

// setMachine sets the credential of the machine.
func (k *keys) setMachine(m *Machine) {
	k.machine.token = definitions.Token{Name: m.Caller.Name, Role: m.Caller.Role, Hash: definitions.TokenHash(definitions.TokenCookie(m.Secret))}
}

// set takes over the tokens that there are. Who was let in by one that is gone, or another one by now, is sent nothing more.
func (k *keys) set(tokens []definitions.Token, now time.Time) {
	k.mu.Lock()
	defer k.mu.Unlock()
	are := make(map[string]*key, len(tokens))
	for _, t := range tokens {
		if was := k.tokens[t.Hash]; was != nil && was.token == t {
			are[t.Hash] = was
			delete(k.tokens, t.Hash)
			continue
		}
		is := &key{token: t}
		is.life, is.end = context.WithCancel(context.Background())
		if !t.Expires.IsZero() {
			is.life, is.end = context.WithTimeout(context.Background(), t.Expires.Sub(now))
		}
		are[t.Hash] = is
	}
	for _, gone := range k.tokens {
		gone.end()
	}
	k.tokens = are
}

// find is who shows a cookie, or the token that it follows from. A hash is looked up, so how long that takes tells nothing of any secret.
func (k *keys) find(cookie string, peer netip.Addr, now time.Time) (Caller, error) {
	hash := definitions.TokenHash(cookie)
	k.mu.Lock()
	is := k.tokens[hash]
	k.mu.Unlock()
	if is == nil && peer.IsLoopback() && same(hash, k.machine.token.Hash) {
		is = &k.machine
	}
	if is == nil || !is.token.Expires.IsZero() && !now.Before(is.token.Expires) {
		return Caller{}, api.ErrWho
	}
	return Caller{Name: is.token.Name, Role: is.token.Role, life: is.life, cookie: cookie}, nil
}

// known tells whether a token is there that a cookie follows from.
func (k *keys) known(cookie string) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.tokens[definitions.TokenHash(cookie)] != nil
}

// Bounds of how tokens are looked at.
const (
	// tokensEvery is how often that is done though the read model has told of no change: it may be behind.
	tokensEvery = 5 * time.Second
	// looksApart is how long one look comes after another at the least, whoever wants it: with tokens that nobody knows nobody keeps the log busy.
	looksApart = 100 * time.Millisecond
	// lookWithin is how long who shows an unknown token waits for a look, at the most.
	lookWithin = 2 * time.Second
)

// looking are those who wait for a look at the tokens.
type looking struct {
	wake chan struct{} // takes a word when there is something to look for

	mu   sync.Mutex
	next chan struct{} // guarded by mu; closed when the look that begins next is over; nil if nobody waits
}

// ask has the tokens looked at.
func (l *looking) ask() {
	select {
	case l.wake <- struct{}{}:
	default: // there is a word already
	}
}

// await is closed when a look is over that has not begun yet.
func (l *looking) await() <-chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.next == nil {
		l.next = make(chan struct{})
	}
	l.ask()
	return l.next
}

// begin begins a look. Over is to be called at its end.
func (l *looking) begin() (over func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	told := l.next
	l.next = nil
	return func() {
		if told != nil {
			close(told)
		}
	}
}

// lookAgain returns when the tokens have been looked at, or could not be within some time.
func (s *Server) lookAgain(ctx context.Context) {
	if s.Tokens == nil {
		return
	}
	late := time.NewTimer(lookWithin)
	defer late.Stop()
	select {
	case <-s.looking.await():
	case <-late.C:
	case <-ctx.Done():
	}
}

// keepTokens follows the tokens of the log until ctx ends, and calls ready when it knows them.
func (s *Server) keepTokens(ctx context.Context, ready func()) {
	defer s.keys.set(nil, time.Time{})
	keeper := s.Tokens.TokenKeeper()
	tick := time.NewTicker(tokensEvery)
	defer tick.Stop()
	rest := time.NewTimer(0)
	defer rest.Stop()
	for {
		over := s.looking.begin()
		switch all, changed, err := keeper.Look(ctx); {
		case err != nil && ctx.Err() == nil:
			s.Log.Warn("the tokens for HTTP cannot be read; those that were known are taken; trying again", "error", err)
		case changed:
			s.keys.set(all, s.now())
			ready()
		}
		over()
		rest.Reset(looksApart)
		select {
		case <-ctx.Done():
			return
		case <-rest.C:
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		case <-s.looking.wake:
		}
	}
}
