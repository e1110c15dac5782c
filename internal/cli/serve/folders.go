package serve

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"millrace/internal/cli/settings"
	"millrace/internal/cli/term"
	"millrace/internal/files"
)

// A worker trusts what lies in its folders: reports of attempts, files of tasks. So they must
// belong to this user alone, and there is no default for a user without a folder of its own: a
// shared folder, such as that for temporary files, will not do.

// folders are the folders of a worker.
type folders struct{ spool, cache, work string }

// makeFolders makes them. It must run before anything is started, for it may fail.
func (w *WorkerConfig) makeFolders(s *settings.Values) (err error) {
	if w.own.spool, err = spoolFolder(s.Spool); err != nil {
		return err
	}
	if w.own.cache, err = cacheFolder(w.files.dir); err != nil {
		return err
	}
	w.own.work, err = workFolder()
	return err
}

// stateFolder makes a folder for a worker's state.
func stateFolder(name string) (string, error) {
	if dir := os.Getenv("MILLRACE_DEV_DIR"); dir != "" {
		return files.OwnDir(filepath.Join(dir, name))
	}
	if dir := managed("STATE_DIRECTORY"); dir != "" {
		return files.PrivateDir(dir, name)
	}
	cache, err := userCache("MILLRACE_DEV_DIR, or StateDirectory= in a unit of systemd")
	if err != nil {
		return "", err
	}
	return files.PrivateDir(cache, "millrace", "dev", name)
}

// spoolFolder makes the folder of the setting spool, or the default one.
func spoolFolder(set string) (dir string, err error) {
	if set != "" {
		dir, err = files.OwnDir(set)
	} else {
		dir, err = stateFolder("spool")
	}
	return dir, unusableFolder("the spool", "--spool", err)
}

// cacheFolder makes the folder for files of tasks. Setup commands may run there as other users.
func cacheFolder(set string) (dir string, err error) {
	switch managed := managed("CACHE_DIRECTORY"); {
	case set != "":
		dir, err = files.PassageDir(filepath.Split(filepath.Clean(set)))
	case managed != "":
		dir, err = files.PassageDir(managed, "files")
	default:
		var cache string
		if cache, err = userCache("CacheDirectory= in a unit of systemd"); err == nil {
			dir, err = files.PassageDir(cache, "millrace", "files")
		}
	}
	return dir, unusableFolder("the cache of files", "--files-cache", err)
}

// systemCache is where root keeps working directories, for the users of tasks may not pass through
// root's home.
const systemCache = "/var/cache"

// workFolder makes the parent of working directories, each of which belongs to the user of its
// task. $TMPDIR may be shared with others: nothing found there is used.
func workFolder() (dir string, err error) {
	switch managed := managed("CACHE_DIRECTORY"); {
	case os.Getenv("TMPDIR") != "":
		return os.TempDir(), nil
	case managed != "":
		dir, err = files.PassageDir(managed, "work")
	case os.Geteuid() == 0:
		dir, err = files.PassageDir(systemCache, "millrace", "work")
	default:
		var cache string
		if cache, err = userCache("CacheDirectory= in a unit of systemd"); err == nil {
			dir, err = files.PassageDir(cache, "millrace", "work")
		}
	}
	return dir, unusableFolder("working directories", "TMPDIR", err)
}

// managed returns a directory that systemd has made for this service: the first, if there are
// several.
func managed(variable string) string {
	first, _, _ := strings.Cut(os.Getenv(variable), ":")
	return first
}

// userCache returns this user's cache folder. instead names a setting that could be used instead.
func userCache(instead string) (string, error) {
	dir, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("%w: set HOME, or %s", err, instead)
	}
	return dir, nil
}

// unusableFolder says what a folder was wanted for, and which setting chooses another one.
func unusableFolder(what, choice string, err error) error {
	if err == nil {
		return nil
	}
	f := &term.Fault{Code: term.ExitUsage, Err: fmt.Errorf("no folder for %s: %w", what, err), Hint: term.Hint("%s chooses one", choice)}
	if errors.Is(err, files.ErrForeign) {
		f.Code = term.ExitRefused
		f.Hint = term.Hint("look at what is there and who made it, or choose another folder with %s", choice)
	}
	return f
}
