package definitions

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"millrace/events/jet/names"
	"millrace/events/jet/request"
	"millrace/events/jet/rights"
	"millrace/task"
	"millrace/task/value"
)

// Tokens let programs and people use the service over HTTP. They are definitions in the log, as
// jobs are: so all servers of an installation know the same ones, the log records who made and
// removed them, and no file has to be copied. The log holds a hash of each, from which the token
// cannot be found: it has 130 random bits.

// ErrNoToken: no token has this name. ErrTokenExists: a token has it already.
var (
	ErrNoToken     = errors.New("no such token")
	ErrTokenExists = errors.New("a token has this name already")
)

// ErrBadToken: the log's latest fact about a token's name is not valid, or a given token is not.
var ErrBadToken = errors.New("the token is not valid")

// Token allows its holder to use the service over HTTP in a role. Its name is the actor of the
// facts that follow.
type Token struct {
	Name string      `json:"name"`
	Role rights.Role `json:"role"`
	// Hash is [TokenHash] of its cookie.
	Hash string `json:"hash"`
	// Expires is when the token stops working; zero means never.
	Expires time.Time `json:"expires,omitzero"`
}

// Validate returns an error that says what is wrong with a token. It wraps [ErrBadToken].
func (t *Token) Validate() error {
	switch {
	case !slices.Contains(rights.Asking(), t.Role):
		return fmt.Errorf("%w: a token has no role %q; want %s", ErrBadToken, t.Role, rights.Listed(rights.Asking()))
	case len(t.Hash) != 2*sha256.Size:
		return fmt.Errorf("%w: its hash is %q", ErrBadToken, t.Hash)
	}
	if err := rights.ValidCaller(t.Name); err != nil {
		return fmt.Errorf("%w: %w", ErrBadToken, err)
	}
	return nil
}

// ReadToken decodes the token of a name. The error wraps [ErrBadToken].
func ReadToken(name string, text []byte) (t Token, err error) {
	if err := json.Unmarshal(text, &t); err != nil {
		return t, fmt.Errorf("%w: %w", ErrBadToken, value.Plainly(err))
	}
	if t.Name != name {
		return t, fmt.Errorf("%w: it says that its name is %q", ErrBadToken, t.Name)
	}
	return t, t.Validate()
}

// NewToken makes a token, and the secret that its holder sends, which is stored nowhere.
func NewToken(name string, role rights.Role, expires time.Time) (t Token, secret string, err error) {
	secret = tokenMark + rand.Text()
	t = Token{name, role, TokenHash(TokenCookie(secret)), expires}
	return t, secret, t.Validate()
}

// LikeToken tells whether a text has the form of a secret of [NewToken].
func LikeToken(secret string) bool {
	text, ok := strings.CutPrefix(secret, tokenMark)
	return ok && len(text) >= 26 && len(text) <= 64
}

// tokenMark begins all tokens, so that people and secret scanners recognise one.
const tokenMark = "mr_"

// TokenCookie is what a browser sends instead of a token. It is derived from the token, so it
// becomes invalid together with it, and does not reveal it.
func TokenCookie(secret string) string {
	sum := hmac.New(sha256.New, []byte(secret))
	sum.Write([]byte("millrace cookie 1"))
	return hex.EncodeToString(sum.Sum(nil))
}

// TokenHash is what the log stores of a token, made from its cookie.
func TokenHash(cookie string) string {
	sum := sha256.Sum256([]byte(cookie))
	return hex.EncodeToString(sum[:])
}

// StoredToken is a token with the time when it was made, and its maker.
type StoredToken struct {
	Token
	Made time.Time `json:"made"`
	By   string    `json:"by"`
}

func storedToken(d *defined, err error) (StoredToken, error) {
	t := StoredToken{Made: d.Changed, By: d.Actor}
	if err := d.readable(err); err != nil {
		return t, err
	}
	t.Token, err = ReadToken(d.Name(), d.Text)
	return t, err
}

// PutToken stores a token on behalf of actor. The error wraps [ErrTokenExists] if a token has its
// name and replace is false.
func (s *Registry) PutToken(ctx context.Context, t Token, actor string, replace bool) error {
	if err := t.Validate(); err != nil {
		return err
	}
	text, err := json.Marshal(t)
	if err != nil {
		return err
	}
	_, _, err = s.amend(ctx, task.Named(task.DefToken, t.Name), actor, false, func(was *defined, _ time.Time) (task.DefinitionEvent, error) {
		if was.Exists() && !replace {
			return nil, ErrTokenExists
		}
		next, err := was.Next(text)
		return task.DefinitionApplied{Edition: next}, err
	})
	if err != nil {
		return fmt.Errorf("store token %s: %w", t.Name, err)
	}
	return nil
}

// RemoveToken removes a token on behalf of actor. The error wraps [ErrNoToken] if there is none.
func (s *Registry) RemoveToken(ctx context.Context, name, actor string) error {
	return s.remove(ctx, task.Named(task.DefToken, name), actor)
}

// Tokens returns all tokens by name, and the errors of those that are not valid.
func (s *Registry) Tokens(ctx context.Context) ([]StoredToken, error) {
	return present(ctx, s, task.DefToken, storedToken)
}

// TokenKeeper knows all tokens, as of its last look. Only one goroutine may use it.
type TokenKeeper struct {
	s      *Registry
	tokens map[string]Token // nil before the first look
	after  uint64           // changes up to it are known
}

// TokenKeeper returns a keeper that has not looked yet.
func (s *Registry) TokenKeeper() *TokenKeeper { return &TokenKeeper{s: s} }

// Look returns all tokens by name, and whether they differ from the last look; the first look
// always differs. After an error it returns what was known before. It asks the leader, for a
// replica may lag behind without a sign of it: a removed token must no longer work once its removal
// is acknowledged, and a new one must work at once.
func (k *TokenKeeper) Look(ctx context.Context) (all []Token, changed bool, err error) {
	changed, err = k.look(ctx)
	return slices.SortedFunc(maps.Values(k.tokens), func(a, b Token) int { return strings.Compare(a.Name, b.Name) }), changed, err
}

// look brings the tokens up to date, and tells whether they have changed.
func (k *TokenKeeper) look(ctx context.Context) (bool, error) {
	changed, all, reached, err := k.s.changes(ctx, task.DefToken, k.after, 0)
	if err != nil {
		return false, err
	}
	tokens := map[string]Token{}
	if all || k.tokens == nil {
		if changed, err = k.s.chains(ctx, task.DefToken, reached); err != nil {
			return false, err
		}
	} else {
		if len(changed) == 0 {
			k.after = reached
			return false, nil
		}
		maps.Copy(tokens, k.tokens)
	}
	for i := range changed {
		delete(tokens, changed[i].Name())
		// An unreadable token lets no caller in.
		if t, err := storedToken(&changed[i], nil); err == nil {
			tokens[t.Name] = t.Token
		}
	}
	k.tokens, k.after = tokens, reached
	return true, nil
}

// chains returns all editions of the definitions of a kind up to a sequence, in the order of the
// log, from the leader. Use it only for kinds with few definitions.
func (s *Registry) chains(ctx context.Context, kind string, last uint64) (all []defined, err error) {
	subject := names.DefSubject(task.Named(kind, "*"))
	end, found, err := s.LeaderGet(ctx, map[string]any{"last_by_subj": subject})
	if err != nil || !found {
		return nil, request.ReadError(subject, err)
	}
	last = min(last, end.Seq) // behind it the server would search the rest of the log in vain
	for from := uint64(1); from <= last; {
		r, found, err := s.LeaderGet(ctx, map[string]any{"seq": from, "next_by_subj": subject})
		if err != nil {
			return nil, fmt.Errorf("read definitions (%s): %w", kind, err)
		}
		if !found || r.Seq > last {
			return all, nil
		}
		d, err := s.definitionIn(ctx, task.Def(strings.TrimPrefix(r.Place, names.DefPrefix)), &r)
		if err != nil {
			return nil, err
		}
		all, from = append(all, d), r.Seq+1
	}
	return all, nil
}
