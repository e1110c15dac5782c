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

// keepTokens follows the tokens of the log until ctx ends, and calls ready when it knows them.
func (s *Server) keepTokens(ctx context.Context, ready func()) {
	defer s.keys.set(nil, time.Time{})
	s.Tokens.KeepTokens(ctx, tokensEvery, s.wake, func(all []definitions.Token) {
		s.keys.set(all, s.now())
		ready()
	}, func(err error) {
		s.Log.Warn("the tokens for HTTP cannot be read; those that were known are taken; trying again", "error", err)
	})
}

// tokensEvery is how often tokens are looked at though the read model has told of no change: it may be behind.
const tokensEvery = 5 * time.Second
