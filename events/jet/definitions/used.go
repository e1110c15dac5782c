package definitions

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"

	"millrace/events/jet/names"
	"millrace/events/jet/request"
)

// usedTTL is how long the last use of a token is remembered.
const usedTTL = 400 * 24 * time.Hour

// TokenUse says when a token was last used, at a server. It is no fact: it lies beside the log, one
// message for each name that each use replaces.
type TokenUse struct {
	Name string `json:"name"`
	// Hash is that of the token, so that one of the same name that replaces it begins unused.
	Hash string    `json:"hash"`
	At   time.Time `json:"at"`
}

// SaveTokenUse stores the last use of a token. Of several servers the last writer wins, so the time
// may be older than the last use by as long as a server waits before it writes again.
func (s *Registry) SaveTokenUse(ctx context.Context, u TokenUse) error {
	body, err := json.Marshal(u)
	if err != nil {
		return err
	}
	m := &nats.Msg{Subject: names.UsedPrefix + u.Name, Data: body, Header: request.TTL(usedTTL)}
	if _, err := s.JS.PublishMsg(ctx, m); err != nil {
		return fmt.Errorf("store when token %s was used: %w", u.Name, err)
	}
	return nil
}

// TokenUses returns when the tokens of these names were last used, by their hashes. It lacks those
// that were never used, or not for long.
func (s *Registry) TokenUses(ctx context.Context, tokens []string) (map[string]time.Time, error) {
	used := map[string]time.Time{}
	err := request.LastOn(ctx, s.Link, names.StateStream, names.UsedPrefix, tokens, func(name string, m *nats.Msg) error {
		var u TokenUse
		if json.Unmarshal(m.Data, &u) == nil && u.Name == name {
			used[u.Hash] = u.At
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("read when tokens were used: %w", err)
	}
	return used, nil
}
