package value_test

import (
	"errors"
	"testing"

	"millrace/task/value"
)

func TestFaults(t *testing.T) {
	a, b, c := errors.New("a is wrong"), errors.New("b is wrong"), errors.New("c is wrong")
	if err := value.JoinFaults(nil, nil); err != nil {
		t.Errorf("of nothing: %v", err)
	}
	if err := value.JoinFaults(nil, a); err != a { //nolint:errorlint // the very same
		t.Errorf("of one: %v", err)
	}
	if err := value.Under("step.", nil); err != nil {
		t.Errorf("nothing under a prefix: %v", err)
	}
	err := value.JoinFaults(value.Under("step.", value.JoinFaults(a, b)), c)
	if got, want := err.Error(), "step.a is wrong; step.b is wrong; c is wrong"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	if n := len(value.FaultsOf(err)); n != 3 || !errors.Is(err, b) || !errors.Is(err, c) {
		t.Errorf("%d errors, want 3, each to be found: %v", n, err)
	}
}
