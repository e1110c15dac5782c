package definitions_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"millrace/events/jet/definitions"
	wire "millrace/events/jet/names"
	"millrace/events/jet/natstest"
	"millrace/events/jet/rights"
	"millrace/task"
)

func TestReadToken(t *testing.T) {
	t.Parallel()
	hash := definitions.TokenHash("c")
	for _, c := range []struct {
		text string
		ok   bool
	}{
		{`{"name":"shop","role":"submitter","hash":"` + hash + `"}`, true},
		{`{"name":"shop","role":"viewer","hash":"` + hash + `","expires":"2026-03-01T00:00:00Z","later":1}`, true},
		{`{"name":"shop","role":"worker","hash":"` + hash + `"}`, false},
		{`{"name":"shop","role":"server","hash":"` + hash + `"}`, false},
		{`{"name":"shop","role":"","hash":"` + hash + `"}`, false},
		{`{"name":"shop","role":"viewer","hash":""}`, false},
		{`{"name":"other","role":"viewer","hash":"` + hash + `"}`, false},
		{`{}`, false},
		{`[]`, false},
	} {
		if _, err := definitions.ReadToken("shop", []byte(c.text)); (err == nil) != c.ok || err != nil && !errors.Is(err, definitions.ErrBadToken) {
			t.Errorf("%s: %v", c.text, err)
		}
	}
	for _, name := range []string{"", "scheduler", "a b", "a.b", "*"} {
		if _, _, err := definitions.NewToken(name, rights.Viewer, time.Time{}); !errors.Is(err, definitions.ErrBadToken) {
			t.Errorf("%q: %v", name, err)
		}
	}
	if asking := rights.Asking(); !slices.Equal(asking, []rights.Role{rights.Submitter, rights.Viewer, rights.Operator, rights.Pinger}) {
		t.Errorf("%v may ask", asking)
	}
}

// The log has the hashes of tokens, and a keeper of tokens notices each change.
func TestTokens(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	ctx := within(t)
	keeper := s.TokenKeeper()
	known := func() (names []string) {
		t.Helper()
		all, changed, err := keeper.Look(ctx)
		if err != nil || !changed {
			t.Fatalf("%v, %v, %v: nobody is told", all, changed, err)
		}
		for i := range all {
			names = append(names, all[i].Name)
		}
		if again, changed, err := keeper.Look(ctx); err != nil || changed || !slices.Equal(again, all) {
			t.Errorf("looked at again: %v, %v, %v", again, changed, err)
		}
		return names
	}
	if names := known(); len(names) != 0 {
		t.Errorf("there are %v", names)
	}
	token, secret, err := definitions.NewToken("shop", rights.Submitter, time.Time{})
	if err != nil || !definitions.LikeToken(secret) || token.Hash != definitions.TokenHash(definitions.TokenCookie(secret)) {
		t.Fatalf("%+v, %q, %v", token, secret, err)
	}
	put := func(name string, replace bool) error {
		is := token
		is.Name = name
		return s.PutToken(ctx, is, "ada", replace)
	}
	for _, name := range []string{"shop", "admin"} {
		if err := put(name, false); err != nil {
			t.Fatal(err)
		}
		known()
	}
	if err := s.PutToken(ctx, token, "ada", false); !errors.Is(err, definitions.ErrTokenExists) {
		t.Errorf("twice: %v", err)
	}
	if err := put("shop", true); err != nil {
		t.Error(err)
	}
	if names := known(); !slices.Equal(names, []string{"admin", "shop"}) {
		t.Errorf("known are %v", names)
	}
	if err := s.RemoveToken(ctx, "admin", "bob"); err != nil {
		t.Fatal(err)
	}
	// Lets no caller in.
	natstest.Raw(t, s.JS, wire.DefSubject(task.Named(task.DefToken, "evil")), nil, []byte(`{}`))
	if names := known(); !slices.Equal(names, []string{"shop"}) {
		t.Errorf("known are %v", names)
	}
	if err := s.RemoveToken(ctx, "admin", "bob"); !errors.Is(err, definitions.ErrNoToken) {
		t.Errorf("removed twice: %v", err)
	}
	all, err := s.Tokens(ctx)
	if len(all) != 1 || all[0].By != "ada" || all[0].Role != rights.Submitter {
		t.Errorf("there are %+v, %v", all, err)
	}
	facts, err := s.DefinitionFacts(ctx, task.Named(task.DefToken, "admin"))
	if err != nil || len(facts) != 2 || facts[1].Fact.Actor != "bob" || strings.Contains(string(facts[0].Raw), secret) {
		t.Errorf("the log has %+v, %v", facts, err)
	}
	if fresh, changed, err := s.TokenKeeper().Look(ctx); err != nil || !changed || len(fresh) != 1 {
		t.Errorf("who comes anew knows %v, %v, %v", fresh, changed, err)
	}
}

// The last use of a token is one message beside the log, which the next use replaces.
func TestTokenUses(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	ctx := within(t)
	at := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	for i, u := range []definitions.TokenUse{{Name: "shop", Hash: "a", At: at}, {Name: "shop", Hash: "a", At: at.Add(time.Hour)}, {Name: "other", Hash: "b", At: at}, {Name: "other", Hash: "c", At: at}} {
		if err := s.SaveTokenUse(ctx, u); err != nil {
			t.Fatalf("%d: %v", i, err)
		}
	}
	var names []string
	for n := range 600 { // more than one request asks for
		names = append(names, fmt.Sprintf("none%d", n))
	}
	used, err := s.TokenUses(ctx, append(names, "shop", "other"))
	if err != nil || len(used) != 2 || !used["a"].Equal(at.Add(time.Hour)) || !used["c"].Equal(at) {
		t.Errorf("used: %v, %v", used, err)
	}
	if used, err = s.TokenUses(ctx, nil); err != nil || len(used) > 0 {
		t.Errorf("without names: %v, %v", used, err)
	}
	info := must(s.JS.Stream(ctx, wire.StateStream))(t).CachedInfo()
	if info.State.Msgs != 2 {
		t.Errorf("there are %d messages about two tokens", info.State.Msgs)
	}
}
