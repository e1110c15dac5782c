package jet

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"millrace/events"
	"millrace/events/jet/definitions"
	"millrace/events/jet/names"
	"millrace/events/jet/pubsub"
	"millrace/events/jet/request"
	"millrace/events/jet/rights"
	"millrace/task/value"
)

// ErrNoService: no server of Millrace answers.
var ErrNoService = errors.New("no millrace server answers: start `millrace server` or `millrace dev` against this NATS")

const (
	// silence is the time after which an answer is lost, with the connection or with the server that was asked:
	// a server answers each request sooner, if only that it gives up.
	silence = rights.AnswerTime + 5*time.Second
	// mostAsked is how often a request is made that changes nothing, if its answers are lost.
	mostAsked = 4
)

// ServiceError is an error that a service of Millrace answered with.
type ServiceError struct {
	// Code is as in HTTP: 400 for a bad request, 404 for something that does not exist, 409 for
	// something that cannot be done now, 500 otherwise.
	Code    string
	Message string
}

func (e *ServiceError) Error() string { return e.Message }

// Ask sends a request to a service of Millrace, under the name of this connection's NATS user, and
// reads its answer. An answer that has not come after 30 s is lost: a request that changes nothing is then
// made again, three times at most. The error wraps [ErrNoService]; or is a [*ServiceError]; or is a
// [*Denied] if this user may not ask that; or wraps [events.ErrUnknown] if the answer to a request
// that changes something was lost, and [context.DeadlineExceeded] if all answers to another were.
func (s *Store) Ask(ctx context.Context, verb rights.Verb, request, answer any) error {
	return ask(ctx, patiently(s.Request, verb, silence), verb.For(s.caller), request, answer)
}

// Attended returns a store for a user who may not read the log: [Store.Ask] works, and all else fails
// as the server's refusal does. It goes by the clock of this machine.
func Attended(nc *nats.Conn, options ...Option) (*Store, error) {
	js, err := jetstream.New(nc)
	if err != nil {
		return nil, err
	}
	s := storeOn(nc, js, options)
	s.Denials = request.WatchDenials(nc)
	if s.pub, err = pubsub.NewPublisher(nc, pubsub.Timeout); err != nil {
		s.Denials.Close()
		return nil, err
	}
	s.Link.Pub = s.pub
	s.Denials.Of(s.pub)
	s.OwnTime()
	s.Beats = New(s.Link)
	s.Registry = definitions.New(s.Log, nil, s)
	return s, nil
}

// Unread tells whether an error of [Attach] means that this user may not read the log.
func Unread(err error) bool {
	lacks, ok := errors.AsType[*request.Denied](err)
	return ok && lacks.Subject == names.APIInfo+names.LogStream
}

// Refused tells whether the NATS server does not let this user do what failed.
func Refused(err error) bool { return errors.As(err, new(*request.Denied)) }

// RecordAt decodes a message of the log that a server of Millrace has shown.
func RecordAt(subject string, seq uint64, stored time.Time, text []byte) events.Record {
	return request.Record(subject, seq, stored, nil, 0, text)
}

// Caller is the name under which the store asks the service.
func (s *Store) Caller() string { return s.caller }

// AskOnce is [Store.Ask] for a caller without a store: it makes a connection for the one request.
func AskOnce(ctx context.Context, cfg ConnectConfig, verb rights.Verb, request, answer any) error {
	nc, err := Connect(cfg)
	if err != nil {
		return err
	}
	defer nc.Close()
	return ask(ctx, patiently(nc.RequestWithContext, verb, silence), verb.For(rights.CallerOn(nc)), request, answer)
}

// Versions asks all millrace servers for the versions of their programs, with a connection of its own. It
// returns those that answer in time: none if this user may not ask. One of no release is 0.0.0.
func Versions(cfg ConnectConfig) (all []string, err error) {
	cfg.Log = nil // a refusal counts as no answer
	nc, err := Connect(cfg)
	if err != nil {
		return nil, err
	}
	defer nc.Close()
	answers, err := nc.SubscribeSync(nc.NewInbox())
	if err == nil {
		err = nc.PublishRequest(names.ServicePing, answers.Subject, nil)
	}
	for m := new(nats.Msg); err == nil; {
		var is struct{ Version string }
		if m, err = answers.NextMsg(500 * time.Millisecond); err == nil && json.Unmarshal(m.Data, &is) == nil {
			all = append(all, is.Version)
		}
	}
	if errors.Is(err, nats.ErrTimeout) || errors.Is(err, nats.ErrNoResponders) {
		err = nil
	}
	return all, err
}

// decode reads an answer. Long and frequent answers have a faster way than json.Unmarshal.
func decode(data []byte, answer any) error {
	if page, ok := answer.(interface{ ReadJSON(data []byte) error }); ok {
		return page.ReadJSON(data)
	}
	return json.Unmarshal(data, answer)
}

// requester makes a request and waits for its answer.
type requester = func(ctx context.Context, subject string, body []byte) (*nats.Msg, error)

// patiently makes once's request again as long as its answer is lost, if the verb allows that.
func patiently(once requester, verb rights.Verb, silence time.Duration) requester {
	harmless := verb.Access() == rights.Reading || verb.Access() == rights.Owning
	return func(ctx context.Context, subject string, body []byte) (*nats.Msg, error) {
		for asked := 1; ; asked++ {
			asking, cancel := context.WithTimeout(ctx, silence)
			m, err := once(asking, subject, body)
			lost := err != nil && ctx.Err() == nil && asking.Err() != nil
			cancel()
			switch {
			case lost && !harmless:
				return nil, fmt.Errorf("%w: a server has not answered in %v", events.ErrUnknown, silence)
			case !lost || asked == mostAsked:
				return m, err
			}
		}
	}
}

func ask(ctx context.Context, asks requester, subject string, request, answer any) error {
	body, err := value.JSON(request)
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
