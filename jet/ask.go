package jet

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/nats-io/nats.go"

	"millrace/jet/roles"
)

// ErrNoService: no server of Millrace answers.
var ErrNoService = errors.New("no millrace server answers: start `millrace server` or `millrace dev` against this NATS")

// ServiceError is an error that a service of Millrace answered with.
type ServiceError struct {
	// Code is as in HTTP: 400 for a bad request, 404 for something that does not exist, 409 for
	// something that cannot be done now, 500 otherwise.
	Code    string
	Message string
}

func (e *ServiceError) Error() string { return e.Message }

// Ask sends a request to a service of Millrace, under the name of this connection's NATS user, and
// reads its answer. The error wraps [ErrNoService], or is a [*ServiceError], or a [*Denied] if this
// user may not ask that.
func (s *Store) Ask(ctx context.Context, verb roles.Verb, request, answer any) error {
	return ask(ctx, s.Request, verb.For(s.caller), request, answer)
}

// AskOnce is [Store.Ask] for a caller without a store: it makes a connection for the one request.
func AskOnce(ctx context.Context, cfg ConnectConfig, verb roles.Verb, request, answer any) error {
	nc, err := Connect(cfg)
	if err != nil {
		return err
	}
	defer nc.Close()
	return ask(ctx, nc.RequestWithContext, verb.For(roles.CallerOn(nc)), request, answer)
}

// decode reads an answer. Long and frequent answers have a faster way than json.Unmarshal.
func decode(data []byte, answer any) error {
	if page, ok := answer.(interface{ ReadJSON(data []byte) error }); ok {
		return page.ReadJSON(data)
	}
	return json.Unmarshal(data, answer)
}

func ask(ctx context.Context, asks func(context.Context, string, []byte) (*nats.Msg, error), subject string, request, answer any) error {
	body, err := json.Marshal(request)
	if err != nil {
		return err
	}
	m, err := asks(ctx, subject, body)
	if errors.Is(err, nats.ErrNoResponders) {
		return fmt.Errorf("%w (%s)", ErrNoService, subject)
	}
	if err != nil {
		return fmt.Errorf("ask %s: %w", subject, err)
	}
	if code := m.Header.Get("Nats-Service-Error-Code"); code != "" {
		return &ServiceError{Code: code, Message: m.Header.Get("Nats-Service-Error")}
	}
	if err := decode(m.Data, answer); err != nil {
		return fmt.Errorf("ask %s: the answer cannot be read: %w", subject, err)
	}
	return nil
}
