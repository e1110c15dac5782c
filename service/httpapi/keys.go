package httpapi

import (
	"context"
	"net/netip"
	"sync"
	"time"

	"millrace/events/jet/definitions"
	"millrace/service/answers"
)

// keys are the credentials of callers: the machine's, and tokens. Only their hashes are kept.
type keys struct {
	machine key

	mu     sync.Mutex
	tokens map[string]*key // guarded by mu; by their hash
}

// key admits a caller until it is removed.
type key struct {
	token definitions.Token
	life  context.Context
	end   context.CancelFunc

	used   time.Time // guarded by keys.mu; zero if it was not used yet
	stored time.Time // guarded by keys.mu; when its use was stored last
}

// setMachine sets the credential of the machine.
func (k *keys) setMachine(m *Machine) {
	k.machine.token = definitions.Token{
		Name: m.Caller.Name,
		Role: m.Caller.Role,
		Hash: definitions.TokenHash(definitions.TokenCookie(m.Secret)),
	}
}

// set replaces the tokens. Streams that were opened with a removed or changed token end.
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

// find returns the holder of a cookie, or of the token it derives from. It looks up a hash, so the
// time it takes reveals nothing about any secret.
func (k *keys) find(cookie string, peer netip.Addr, now time.Time) (Caller, error) {
	hash := definitions.TokenHash(cookie)
	k.mu.Lock()
	is := k.tokens[hash]
	if is != nil {
		is.used = now
	}
	k.mu.Unlock()
	if is == nil && peer.IsLoopback() && same(hash, k.machine.token.Hash) {
		is = &k.machine
	}
	if is == nil || !is.token.Expires.IsZero() && !now.Before(is.token.Expires) {
		return Caller{}, answers.ErrWho
	}
	return Caller{Name: is.token.Name, Role: is.token.Role, life: is.life, cookie: cookie}, nil
}

// uses returns the uses of tokens that are to be stored: for each token the last one, unless one was
// stored less than useEvery ago.
func (k *keys) uses(now time.Time) (all []definitions.TokenUse) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for hash, is := range k.tokens {
		if is.used.After(is.stored) && now.Sub(is.stored) >= useEvery {
			is.stored = now
			all = append(all, definitions.TokenUse{Name: is.token.Name, Hash: hash, At: is.used.UTC()})
		}
	}
	return all
}

// known tells whether the token of a cookie exists.
func (k *keys) known(cookie string) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.tokens[definitions.TokenHash(cookie)] != nil
}

// Times of reading the tokens.
const (
	// tokensEvery is how often the tokens are read without news from the read model, which may lag.
	tokensEvery = 5 * time.Second
	// looksApart is the shortest time between two reads, whichever caller wants one: unknown tokens
	// cannot keep the log busy.
	looksApart = 100 * time.Millisecond
	// lookWithin is how long a caller with an unknown token waits for a read at most.
	lookWithin = 2 * time.Second
)

// Times of storing when tokens were used.
const (
	// useEvery is the shortest time between two messages about a token: what is stored may be that
	// old.
	useEvery = time.Minute
	// useLook is the pause between two looks at what is to be stored.
	useLook = 5 * time.Second
	// useWithin bounds storing one.
	useWithin = 5 * time.Second
)

// keepUses stores when tokens were used, until ctx ends. A use that cannot be stored is forgotten.
func (s *Server) keepUses(ctx context.Context) {
	ticker := time.NewTicker(useLook)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		for _, u := range s.keys.uses(s.now()) {
			saving, cancel := context.WithTimeout(ctx, useWithin)
			err := s.Tokens.SaveTokenUse(saving, u)
			cancel()
			if err != nil && ctx.Err() == nil {
				s.Log.Debug("when a token was used cannot be stored", "token", u.Name, "error", err)
				break // the others would fare no better
			}
		}
	}
}

// looking are the callers that wait for a read of the tokens.
type looking struct {
	wake chan struct{} // holds one when there is something to look for

	mu   sync.Mutex
	next chan struct{} // guarded by mu; closes when the next read ends; nil if no caller waits
}

// ask requests a read of the tokens.
func (l *looking) ask() {
	select {
	case l.wake <- struct{}{}:
	default: // requested already
	}
}

// await returns a channel that closes when a read ends that has not begun yet.
func (l *looking) await() <-chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.next == nil {
		l.next = make(chan struct{})
	}
	l.ask()
	return l.next
}

// begin begins a read. The caller calls over at its end.
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

// lookAgain returns when the tokens have been read, or after lookWithin.
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
	ticker := time.NewTicker(tokensEvery)
	defer ticker.Stop()
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
		case <-ticker.C:
		case <-s.looking.wake:
		}
	}
}
