package serve

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"millrace/internal/cli/settings"
	"millrace/internal/files"
)

// TestFoldersOfAWorker checks which of the places that are set counts.
func TestFoldersOfAWorker(t *testing.T) {
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	for _, name := range []string{"HOME", "XDG_CACHE_HOME", "MILLRACE_DEV_DIR", "STATE_DIRECTORY", "CACHE_DIRECTORY", "TMPDIR"} {
		t.Setenv(name, "")
	}
	want := func(spool, cache, work string) {
		t.Helper()
		var w WorkerConfig
		if err := w.makeFolders(&settings.Values{}); err != nil || w.own.spool != spool || w.own.cache != cache || w.own.work != work {
			t.Errorf("%+v, %v, want %s, %s and %s", w.own, err, spool, cache, work)
		}
	}
	var w WorkerConfig
	if err := w.makeFolders(&settings.Values{}); err == nil {
		t.Errorf("without any place there is %+v", w.own)
	}
	t.Setenv("TMPDIR", at("tmp"))
	t.Setenv("XDG_CACHE_HOME", at("cache"))
	want(at("cache/millrace/dev/spool"), at("cache/millrace/files"), at("tmp"))
	t.Setenv("STATE_DIRECTORY", at("state")+":"+at("more"))
	t.Setenv("CACHE_DIRECTORY", at("cached"))
	want(at("state/spool"), at("cached/files"), at("tmp"))
	t.Setenv("MILLRACE_DEV_DIR", at("dev"))
	t.Setenv("TMPDIR", "")
	want(at("dev/spool"), at("cached/files"), at("cached/work"))
	if info, err := os.Stat(at("cached/work")); err != nil || info.Mode().Perm() != 0o711 {
		t.Errorf("%v, %v: the users of tasks cannot pass to their directories", info, err)
	}
	if err := os.Chmod(at("dev/spool"), 0o777); err != nil {
		t.Fatal(err)
	}
	if err := w.makeFolders(&settings.Values{}); !errors.Is(err, files.ErrForeign) {
		t.Errorf("a spool that all may write to: %v", err)
	}
	if err := w.makeFolders(&settings.Values{Spool: at("own")}); err != nil || w.own.spool != at("own") {
		t.Errorf("%s, %v, want the setting", w.own.spool, err)
	}
}
