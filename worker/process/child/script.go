package child

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// maxShebang bounds the first line of a script, in bytes, as the kernel does.
const maxShebang = 256

// shebang returns the interpreter that the first line of a script names, and whether that line ends
// in CR, as those of Windows do; "" if the file is no script.
func shebang(file string) (interpreter string, crlf bool) {
	if info, err := os.Stat(file); err != nil || !info.Mode().IsRegular() {
		return "", false // a pipe would have to be waited for
	}
	f, err := os.Open(file)
	if err != nil {
		return "", false
	}
	defer f.Close()
	head := make([]byte, maxShebang)
	n, _ := f.Read(head) // what cannot be read is no script
	line, named := bytes.CutPrefix(head[:n], []byte("#!"))
	if !named {
		return "", false
	}
	line, _, _ = bytes.Cut(line, []byte{'\n'})
	if words := strings.Fields(string(line)); len(words) > 0 {
		interpreter = words[0]
	}
	return interpreter, bytes.HasSuffix(line, []byte{'\r'})
}

const unixLines = "its first line ends in CR: save it with Unix line ends (LF)"

// uninterpreted says why a script whose file is there cannot be started.
func uninterpreted(file string) string {
	switch interpreter, crlf := shebang(file); {
	case crlf:
		return unixLines
	case interpreter != "":
		return fmt.Sprintf("the file is there, but %s, the interpreter that its first line names, is not; install that on this node", interpreter)
	}
	return "the file is there, but the loader that it names is not; install that on this node, or build the program for it"
}

// lonely says how a program can find a file that it names by a relative path.
const lonely = "a task begins in an empty folder of its own: give the whole path, name a folder with --dir (run.dir), or bring the file along with --files (files)"

// absent says what to do about a program that is not there.
func (c *Command) absent(program string) string {
	switch {
	case !strings.Contains(program, "/"):
		return "install it on this node, or correct its name or PATH"
	case filepath.IsAbs(program):
		return "install it on this node, or correct its path"
	case c.Fresh:
		return lonely
	}
	return fmt.Sprintf("it is not in %s, where the task begins; correct its path, or dir", c.Dir)
}

// hint says what a failure says about files that the program names; "" if nothing.
func (c *Command) hint(file string, r *Result) string {
	if r.Exit == nil || r.Stopped {
		return ""
	}
	code := *r.Exit
	if code == 2 || code == 126 || code == 127 { // env finds no bash\r, a shell has no option \r
		if _, crlf := shebang(file); crlf {
			return unixLines
		}
	}
	if c.Fresh && (code == 2 || code == 127) && slices.ContainsFunc(append(strings.Fields(c.Shell), c.Argv...), c.lacks) {
		return lonely
	}
	return ""
}

// lacks tells whether a word names a file that is not in the directory.
func (c *Command) lacks(word string) bool {
	if !strings.HasPrefix(word, "./") && !strings.HasPrefix(word, "../") {
		return false
	}
	_, err := os.Lstat(c.inDir(word))
	return err != nil
}
