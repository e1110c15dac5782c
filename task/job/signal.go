package job

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"
	"time"

	"millrace/task/param"
	"millrace/task/value"
)

// Signal is an event from outside for which a task waits: an approval, the arrival of a file.
type Signal struct {
	// Name is the signal's name, for people and among the task's inputs. Default [DefaultSignal].
	Name string `json:"name,omitempty" redact:"keep" names:"signal" short:"text"`
	// Timeout is how long the task waits for it once only the signal and limits hold it. Default:
	// no bound.
	Timeout value.Duration `json:"timeout,omitempty" least:"0"`
	// OnTimeout is what happens then. Default [SignalExpire].
	OnTimeout string `json:"on_timeout,omitempty" redact:"word" words:"expire,go_on"`
	// Form is what whoever gives it answers, as a job declares its parameters; none of them is secret.
	// Default: any JSON, or nothing.
	Form []param.Param `json:"form,omitempty"`
	// Who are the names of those who may give or refuse it, in any role, or patterns of names such as
	// proxy:*@example.com. The word [EveryOperator] stands for all who may operate. Default: all of them.
	Who []string `json:"who,omitempty" redact:"keep" alone:"text"`
	// Remind tells those whom notices tell of it again, so often while it waits: at least 1m. Default: as their
	// rules say.
	Remind value.Duration `json:"remind,omitempty"`
}

// EveryOperator in [Signal.Who] stands for everybody with that role.
const EveryOperator = "operator"

// mostAsked is how many names [Signal.Who] has at most.
const mostAsked = 100

// ErrNotAsked: others may give or refuse this approval.
var ErrNotAsked = errors.New("others are asked for this approval")

// DefaultSignal is the name of a signal without its own.
const DefaultSignal = "signal"

// Values of [Signal.OnTimeout].
const (
	// SignalExpire ends the task abnormal/expired.
	SignalExpire = "expire"
	// SignalGoOn lets the task run without it.
	SignalGoOn = "go_on"
)

// SignalPolicies are the values of on_timeout.
var SignalPolicies = value.WordsOf[Signal]("on_timeout")

func (s *Signal) validate() error {
	switch {
	case s == nil:
		return nil
	case s.OnTimeout != "" && !slices.Contains(SignalPolicies, s.OnTimeout):
		return fmt.Errorf("signal.on_timeout is %q, want one of %s", s.OnTimeout, value.List(SignalPolicies))
	case s.OnTimeout != "" && s.Timeout == 0:
		return errors.New("signal.on_timeout says what follows signal.timeout, and that is not set")
	}
	if s.Name != "" {
		if err := value.ValidName("signal", s.Name); err != nil {
			return fmt.Errorf("signal.name: %w", err)
		}
	}
	if len(s.Who) > mostAsked {
		return fmt.Errorf("signal.who has %d names, want at most %d", len(s.Who), mostAsked)
	}
	for i, name := range s.Who {
		if _, err := path.Match(name, ""); err != nil || strings.TrimSpace(name) == "" {
			return fmt.Errorf("signal.who[%d] is %q, want a name or a pattern of names", i, name)
		}
	}
	if s.Remind != 0 && s.Remind.Std() < time.Minute {
		return fmt.Errorf("signal.remind is %v, want at least 1m", s.Remind)
	}
	return value.JoinFaults(append(validForm("signal.form", s.Form), value.NotBelowZero("signal.timeout", s.Timeout))...)
}

func validForm(field string, of []param.Param) (wrong []error) {
	form := param.Params{Declared: of}
	if secrets := form.Secrets(); len(secrets) > 0 {
		return []error{fmt.Errorf("%s has the secret %s, and an answer stays in the log for all to read: name its file in params of the job", field, secrets[0])}
	}
	for _, err := range form.Validate() {
		wrong = append(wrong, errors.New(field+strings.TrimPrefix(err.Error(), "params")))
	}
	return wrong
}

// MaxForm is how many bytes the form of the answers to a function may have.
const MaxForm = 16 << 10

// Lone is the name of the only question of a form whose answer is a value, and no object.
const Lone = "value"

// FormOf reads the form of answers that a program gives, if any: a list of questions, each as a job declares a parameter. One
// without a name is to be alone, and then so is its answer: a value, and no object. The error says which field is
// wrong.
func FormOf(text json.RawMessage) (form []param.Param, alone bool, err error) {
	if n := len(text); n == 0 {
		return nil, false, nil
	} else if n > MaxForm {
		return nil, false, fmt.Errorf("form has %d bytes, want at most %d", n, MaxForm)
	}
	if err := value.Strictly(text, &form); err != nil {
		return nil, false, fmt.Errorf("form: %w", err)
	}
	if alone = len(form) == 1 && form[0].Name == ""; alone {
		form[0].Name = Lone
	}
	return form, alone, value.JoinFaults(validForm("form", form)...)
}

// Called is the name of the signal; that of a nil one is the default.
func (s *Signal) Called() string {
	if s == nil {
		return DefaultSignal
	}
	return cmp.Or(s.Name, DefaultSignal)
}

// Asked are the names of those who may give or refuse it; "" for every operator.
func (s *Signal) Asked() string {
	if s == nil || slices.Contains(s.Who, EveryOperator) {
		return ""
	}
	return strings.Join(s.Who, " or ")
}

// Names tells whether a name is among [Signal.Who], so that whoever has it may give or refuse the signal in any role.
func (s *Signal) Names(by string) bool {
	return s != nil && slices.ContainsFunc(s.Who, func(pattern string) bool {
		ok, err := path.Match(pattern, by)
		return pattern != EveryOperator && ok && err == nil
	})
}

// May refuses a name that is not among [Signal.Who]. The error wraps [ErrNotAsked] and names who may.
func (s *Signal) May(by string) error {
	asked := s.Asked()
	if asked == "" || s.Names(by) {
		return nil
	}
	return fmt.Errorf("%w: %s may give or refuse it, and not %s", ErrNotAsked, asked, by)
}

// told is what a task is told of a signal.
type told struct {
	By   string          `json:"by,omitempty"`
	Data json.RawMessage `json:"data,omitempty"`
}

// Awaiting is a signal for which a task waits; its Signal is nil if that has neither name, form nor who.
type Awaiting struct {
	*Signal
	// Alone says that an answer is the value of the form's only question, and no object.
	Alone bool
}

// Inputs is what the task is told about the signal: one member by the signal's name, with its sender and
// the data that came with it. Data are JSON, or nil, and texts answers as a person types them, which win. With
// a form the data are the answers, those that were left out at their defaults; without one texts make an object
// of it. The error wraps [ErrNotAsked] if the sender may not give the signal; else it says which answers are
// wrong or missing, and which are valid.
func (a Awaiting) Inputs(by string, data json.RawMessage, texts map[string]string) (json.RawMessage, error) {
	err := a.May(by)
	if err == nil {
		data, err = a.answers(data, texts)
	}
	if err != nil {
		return nil, err
	}
	return value.JSON(map[string]any{a.Called(): told{by, data}})
}

// answers completes what comes with a signal.
func (a Awaiting) answers(data json.RawMessage, texts map[string]string) (json.RawMessage, error) {
	if len(data) > MaxInputs {
		return nil, fmt.Errorf("what comes with a signal has %d bytes, want at most %d", len(data), MaxInputs)
	}
	if len(data) > 0 && !json.Valid(data) {
		return nil, errors.New("what comes with a signal is not valid JSON")
	}
	if a.Signal == nil {
		a.Signal = &Signal{}
	}
	form := param.Params{Declared: a.Form}
	if form.IsZero() && len(texts) == 0 {
		return data, nil
	}
	alone := a.Alone && len(a.Form) == 1
	if string(bytes.TrimSpace(data)) == "null" && (!alone || a.Form[0].Optional) {
		data = nil
	}
	var given map[string]json.RawMessage
	switch {
	case alone && len(data) > 0:
		given = map[string]json.RawMessage{a.Form[0].Name: data}
	case len(data) > 0:
		var err error
		if given, err = value.Members(data); err != nil {
			return nil, fmt.Errorf("the answers are no JSON object: %w", err)
		}
	}
	set, wrong := form.Read(given, texts)
	if err := value.JoinFaults(append(wrong, form.Missing(set)...)...); err != nil {
		return nil, fmt.Errorf("approval %q: %w", a.Called(), err)
	}
	all := form.Values()
	if all == nil {
		all = map[string]json.RawMessage{}
	}
	maps.Copy(all, set)
	if alone {
		return all[a.Form[0].Name], nil
	}
	return value.JSON(all)
}

// Forged says what is wrong with what a task was told of the signal, by the fact of an actor: it may not give the
// signal, or the answers are none of its form. It is nil for a signal that has neither.
func (a Awaiting) Forged(actor string, inputs json.RawMessage) error {
	if a.Signal == nil || len(a.Form) == 0 && len(a.Who) == 0 {
		return nil
	}
	var all map[string]told
	_ = json.Unmarshal(inputs, &all) // what is no object has no such member
	is := all[a.Called()]
	if is.By != actor {
		return fmt.Errorf("it is not told that %s has given it", actor)
	}
	_, err := a.Inputs(actor, is.Data, nil)
	return err
}
