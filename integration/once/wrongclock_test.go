package once

import (
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"millrace/integration/place"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// wrongClockEnv names a file for the processes of [wrongProgram]: how far their clock is ahead.
const wrongClockEnv = "INTEGRATION_TEST_CLOCK"

// wrongProgram is the path of a binary that differs from the one under test in one thing: wherever
// its sources call time.Now, time.Since or time.Until, the wall clock is off by what the file in
// [wrongClockEnv] says at the moment. The monotonic clock goes on undisturbed, as on a machine
// whose clock is set. The program's sources are unchanged: the compiler gets modified copies. So
// even a forgotten clock reading is off.
var wrongProgram = sync.OnceValues(func() (string, error) {
	if _, err := place.Program(); err != nil { // makes programDir
		return "", err
	}
	root, err := place.Root()
	if err != nil {
		return "", err
	}
	dir := filepath.Join(place.ProgramDir, "wrong")
	if err := os.Mkdir(dir, 0o700); err != nil {
		return "", err
	}
	overlay, err := wrongSources(root, dir)
	if err != nil {
		return "", err
	}
	path := filepath.Join(dir, "millrace")
	// As for the binary under test: go run caches what it has linked.
	build := exec.Command("go", "run", "-overlay", overlay, "-exec", "cp", "./cmd/millrace", path)
	build.Dir = root
	if out, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("go run -overlay: %w\n%s", err, out)
	}
	return path, nil
})

// wrongClock is the package that the changed sources ask for the time.
const wrongClock = `package wrongclock

import (
	"os"
	"strings"
	"time"
	"unsafe"
)

var file = os.Getenv("` + wrongClockEnv + `")

func Now() time.Time {
	t := time.Now()
	text, _ := os.ReadFile(file)
	d, _ := time.ParseDuration(strings.TrimSpace(string(text)))
	// The wall seconds of a time that has a monotonic reading lie 30 bits up in its first word.
	*(*uint64)(unsafe.Pointer(&t)) += uint64(int64(d/time.Second)) << 30
	return t
}

func Since(t time.Time) time.Duration { return Now().Sub(t) }
func Until(t time.Time) time.Duration { return t.Sub(Now()) }
`

// wrongSources writes changed copies of the program's sources into dir, and returns the file that
// tells the compiler of them.
func wrongSources(root, dir string) (overlay string, err error) {
	replace := map[string]string{}
	write := func(of string, text []byte) error {
		copied := filepath.Join(dir, fmt.Sprintf("%d.go", len(replace)))
		replace[of] = copied
		return os.WriteFile(copied, text, 0o600)
	}
	if err := write(filepath.Join(root, "wrongclock", "wrongclock.go"), []byte(wrongClock)); err != nil {
		return "", err
	}
	err = filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && path != root && (strings.HasPrefix(d.Name(), ".") || slices.Contains([]string{"integration", "examples", "deploy"}, d.Name())):
			return filepath.SkipDir
		case d.IsDir(), filepath.Ext(path) != ".go", strings.HasSuffix(path, "_test.go"):
			return nil
		}
		source, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		if text, changed, err := wrongSource(source); err != nil || changed {
			return errors.Join(err, write(path, text))
		}
		return nil
	})
	if err != nil {
		return "", err
	}
	text, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		return "", err
	}
	overlay = filepath.Join(dir, "overlay.json")
	return overlay, os.WriteFile(overlay, text, 0o600)
}

// wrongSource has one source ask the package wrongclock for the time.
func wrongSource(source []byte) (text []byte, changed bool, err error) {
	tree, err := parser.ParseFile(token.NewFileSet(), "", source, parser.SkipObjectResolution)
	if err != nil {
		return nil, false, err
	}
	local := ""
	for _, spec := range tree.Imports {
		if name, _ := strconv.Unquote(spec.Path.Value); name == "time" {
			if local = "time"; spec.Name != nil {
				local = spec.Name.Name
			}
		}
	}
	var at []int // the offsets of the package's name
	ast.Inspect(tree, func(n ast.Node) bool {
		if s, ok := n.(*ast.SelectorExpr); ok {
			if of, ok := s.X.(*ast.Ident); ok && of.Name == local && slices.Contains([]string{"Now", "Since", "Until"}, s.Sel.Name) {
				at = append(at, int(of.Pos())-1)
			}
		}
		return true
	})
	if local == "" || len(at) == 0 {
		return nil, false, nil
	}
	slices.Sort(at)
	for _, offset := range slices.Backward(at) {
		source = slices.Concat(source[:offset], []byte("wrongclock"), source[offset+len(local):])
	}
	name := int(tree.Name.End()) - 1
	text = slices.Concat(source[:name], []byte(`; import "millrace/wrongclock"`), source[name:], []byte("\nvar _ "+local+".Duration\n"))
	return text, true, nil
}

// wrong has the commands and processes that a place starts from now on be those of [wrongProgram],
// with a clock that is so far ahead. It returns how to set that clock while they run.
func clockOf(p *place.Place, name string, ahead time.Duration) (set func(ahead time.Duration)) {
	p.Helper()
	path, err := wrongProgram()
	if err != nil {
		p.Fatal(err)
	}
	file := name + ".clock"
	set = func(ahead time.Duration) {
		p.Helper()
		p.Write(file+".next", ahead.String())
		if err := os.Rename(p.Path(file+".next"), p.Path(file)); err != nil { // it may be read at any time
			p.Fatal(err)
		}
	}
	set(ahead)
	p.Program = path
	p.Let(wrongClockEnv, p.Path(file))
	return set
}
