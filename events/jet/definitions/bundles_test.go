package definitions_test

import (
	"errors"
	"testing"

	"millrace/events/jet/definitions"
	"millrace/internal/files"
)

func TestBundleNames(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	ctx := within(t)
	if names, err := s.BundleNames(ctx); err != nil || len(names) != 0 {
		t.Errorf("%v: %v", names, err)
	}
	a, b := files.DigestOf([]byte("a")), files.DigestOf([]byte("b"))
	for i, d := range []files.Digest{a, a, b} {
		changed, err := s.NameVersion(ctx, definitions.NamedVersion{Name: "app", Digest: d})
		if err != nil || changed != (i != 1) {
			t.Errorf("%d: changed %v, %v", i, changed, err)
		}
	}
	if n := must(s.Named(ctx, "app"))(t); n.Digest != b {
		t.Errorf("%+v", n)
	}
	if all := must(s.NameHistory(ctx, "app"))(t); len(all) != 2 || all[0].Digest != b || all[1].Digest != a {
		t.Errorf("%+v", all)
	}
	// Who has seen another version than the latest is told, and has changed nothing.
	for _, seen := range []files.Digest{a, b} {
		changed, err := s.NameVersion(ctx, definitions.NamedVersion{Name: "app", Digest: files.DigestOf([]byte("c"))}, seen)
		if changed != (seen == b) || (seen == b) != (err == nil) || err != nil && !errors.Is(err, definitions.ErrChanged) {
			t.Errorf("after %s: changed %v, %v", seen.Short(), changed, err)
		}
	}
	if _, err := s.NameVersion(ctx, definitions.NamedVersion{Name: "none", Digest: a}, b); !errors.Is(err, definitions.ErrNoBundle) {
		t.Errorf("a name that was removed: %v", err)
	}
	if err := s.RemoveBundle(ctx, "app", "ada"); err != nil {
		t.Fatal(err)
	}
	for _, err := range []error{second(s.Named(ctx, "app")), second(s.NameHistory(ctx, "app")), s.RemoveBundle(ctx, "app", "ada")} {
		if !errors.Is(err, definitions.ErrNoBundle) {
			t.Error(err)
		}
	}
	if _, err := s.NameVersion(ctx, definitions.NamedVersion{Name: "a.b", Digest: a}); err == nil {
		t.Error("a name with a dot was taken")
	}
}

func second[T any](_ T, err error) error { return err }
