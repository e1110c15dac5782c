package promises

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"millrace/integration/harness"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// wrongClockFile is the descriptor of the file that tells processes of [wrongProgram] how many
// seconds their clock is ahead, in 8 bytes. All that they start of the same program inherits it.
const wrongClockFile = 9

// wrongTimeEnv has this binary stand in for the tools that make [wrongProgram]: see [wrongTool].
const wrongTimeEnv = "INTEGRATION_TEST_TIME"

// wrongProgram is the path of a binary that differs from the one under test in one thing: wherever
// it or a library calls time.Now, the wall clock is off by what the file at [wrongClockFile] says at
// the moment. The monotonic clock goes on undisturbed, as on a machine whose clock is set. So even a
// forgotten clock reading is off.
//
// Only package time is compiled anew, and then the program linked with it: to compile all packages
// that call it would cost a tenth of all tests.
var wrongProgram = sync.OnceValues(func() (string, error) {
	if _, err := harness.Program(); err != nil { // makes programDir
		return "", err
	}
	root, err := harness.Root()
	if err != nil {
		return "", err
	}
	self, err := os.Executable()
	if err != nil {
		return "", err
	}
	dir := filepath.Join(harness.ProgramDir, "wrong")
	if err := os.Mkdir(dir, 0o700); err != nil {
		return "", err
	}
	archive, err := wrongTime(dir)
	if err != nil {
		return "", err
	}
	path := filepath.Join(dir, "millrace")
	// As for the binary under test: go run caches what it has linked.
	build := exec.Command("go", "run", "-toolexec", self, "-exec", "cp", "./cmd/millrace", path)
	build.Dir, build.Env = root, append(os.Environ(), wrongTimeEnv+"="+archive)
	if out, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("go run -toolexec: %w\n%s", err, out)
	}
	return path, nil
})

// wrongTime compiles a package time whose Now is off, and returns the path of its archive.
//
// All that other packages may know of it must stay as it is, for they are not compiled again: no
// function, variable or line may come or go. If one does, the linker speaks of a fingerprint.
func wrongTime(dir string) (archive string, err error) {
	var home string
	list := func(more ...string) (string, error) {
		cmd := exec.Command("go", append(append([]string{"list"}, more...), "time")...)
		cmd.Env = append(os.Environ(), wrongTimeEnv+"="+home)
		out, err := cmd.Output()
		return strings.TrimSpace(string(out)), err
	}
	home, err = list("-f", "{{.Dir}}")
	if err != nil {
		return "", err
	}
	self, err := os.Executable()
	if err != nil {
		return "", err
	}
	replace, overlay := map[string]string{}, filepath.Join(dir, "overlay.json")
	for name, changes := range wrongClock {
		source, err := os.ReadFile(filepath.Join(home, name))
		if err != nil {
			return "", err
		}
		for _, change := range changes {
			if n := bytes.Count(source, []byte(change.from)); n != 1 {
				return "", fmt.Errorf("%s of package time has %q %d times, want once", name, change.from, n)
			}
			source = bytes.Replace(source, []byte(change.from), []byte(change.to), 1)
		}
		changed := filepath.Join(dir, name)
		source = append(source, "// its files are called $GOROOT/src/time/...\n"...) // cached apart from what the compiler alone makes of it
		if err := os.WriteFile(changed, source, 0o600); err != nil {
			return "", err
		}
		replace[filepath.Join(home, name)] = changed
	}
	text, err := json.Marshal(map[string]any{"Replace": replace})
	if err := errors.Join(err, os.WriteFile(overlay, text, 0o600)); err != nil {
		return "", err
	}
	export := []string{"-export", "-f", "{{.Export}}"}
	right, err := list(export...)
	if err != nil {
		return "", err
	}
	names, err := os.ReadFile(right)
	if bytes.Contains(names, []byte(namedTime)) {
		export = append(export, "-toolexec", self)
	}
	if err != nil {
		return "", err
	}
	return list(append(export, "-overlay", overlay)...)
}

// wrongClock says for each file of package time what is replaced by what. The runtime calls Now for
// timers too, where no function may wait or allocate: hence the bare system call.
var wrongClock = map[string][]struct{ from, to string }{
	"time.go": {
		{"\t\"math/bits\"\n", "\t\"math/bits\"; \"syscall\"\n"},
		{"\t_ \"unsafe\" //", "\t\"unsafe\" //"},
		{"sec, nsec, mono := runtimeNow()\n\tif mono == 0 {", "sec, nsec, mono := runtimeNow(); var ahead int64; " +
			"if n, _, _ := syscall.RawSyscall6(syscall.SYS_PREAD64, " + strconv.Itoa(wrongClockFile) +
			", uintptr(unsafe.Pointer(&ahead)), 8, 0, 0, 0); n == 8 { sec += ahead }\n\tif mono == 0 {"},
	},
}

// namedTime is how the compiler calls the directory of package time, if it shortens the names of the
// files of Go itself.
const namedTime = "$GOROOT/src/time"

// wrongTool runs a tool of the compiler for -toolexec, and returns its exit code; with is the
// [wrongTimeEnv].
//
// The linker gets that archive instead of package time, and has a version of its own: what it links
// is cached apart. The compiler shortens the names of all files of Go itself but of those that
// replace others, and names are among what other packages know. So here it shortens the names of
// all files in that directory, package time's.
func wrongTool(with string, args []string) int {
	tool := exec.Command(args[0], args[1:]...)
	tool.Stdin, tool.Stdout, tool.Stderr = os.Stdin, os.Stdout, os.Stderr
	var version bytes.Buffer
	value := func(name string) *string {
		if i := slices.Index(args, name); i > 0 && i+1 < len(args) {
			return &tool.Args[i+1]
		}
		return new(string)
	}
	switch strings.TrimSuffix(filepath.Base(args[0]), ".exe") {
	case "link":
		if slices.Equal(args[1:], []string{"-V=full"}) {
			tool.Stdout = &version
		} else if list := *value("-importcfg"); list != "" {
			if err := useArchive(list, with); err != nil {
				fmt.Fprintln(os.Stderr, err)
				return 1
			}
		}
	case "compile":
		if paths := value("-trimpath"); *value("-p") == "time" {
			*paths = strings.ReplaceAll(*paths, "=>"+with, "=>"+namedTime)
		}
	}
	if err := tool.Run(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	if version.Len() > 0 {
		fmt.Printf("%s wrong clock %x\n", strings.TrimSpace(version.String()), sha256.Sum256(fmt.Append(nil, wrongClock)))
	}
	return 0
}

// useArchive names another archive of package time in the linker's list.
func useArchive(list, archive string) error {
	text, err := os.ReadFile(list)
	if err != nil {
		return err
	}
	lines := strings.Split(string(text), "\n")
	i := slices.IndexFunc(lines, func(line string) bool { return strings.HasPrefix(line, "packagefile time=") })
	if i < 0 {
		return errors.New("the linker gets no package time")
	}
	lines[i] = "packagefile time=" + archive
	return os.WriteFile(list, []byte(strings.Join(lines, "\n")), 0o600)
}

// clockOf has the commands and processes that a place starts from now on be those of [wrongProgram],
// with a clock that is so far ahead. It returns how to set that clock while they run.
func clockOf(p *harness.Place, name string, ahead time.Duration) (set func(ahead time.Duration)) {
	p.Helper()
	path, err := wrongProgram()
	if err != nil {
		p.Fatal(err)
	}
	file, err := os.Create(p.Path(name + ".clock"))
	if err != nil {
		p.Fatal(err)
	}
	p.Cleanup(func() { _ = file.Close() }) // what it says is of no use any more
	set = func(ahead time.Duration) {
		p.Helper()
		if _, err := file.WriteAt(binary.NativeEndian.AppendUint64(nil, uint64(ahead/time.Second)), 0); err != nil {
			p.Fatal(err)
		}
	}
	set(ahead)
	p.Program = path
	p.Files = append(make([]*os.File, wrongClockFile-3), file) // the first of them is 3
	return set
}
