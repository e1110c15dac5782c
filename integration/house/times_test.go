package house

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"millrace/projections/view"
)

// printers are the folders whose code formats times for people.
var printers = append([]string{"task", "projections/view", "history/replay", "service/client"}, foldersOf(commands)...)

// foldersOf returns the folders of a list of packages and subtrees.
func foldersOf(list []string) (all []string) {
	for _, of := range list {
		all = append(all, strings.TrimSuffix(of, "/..."))
	}
	return all
}

// noTimes are the forms of things that nobody types as a time.
var noTimes = map[string]string{
	" MST":           "the name of a zone, behind a time",
	"MST":            "the zone of a parsed time, by itself",
	"Mon 2 Jan":      "the head of a column of a page's calendar",
	"Mon 2":          "the head of a column of a grid, as the next two",
	"02":             "a day",
	"15":             "an hour",
	"20060102150405": "part of the name of a version",
	"01-02":          "a day in a chart",
}

// Each time that a command prints can be typed where a command takes one.
func TestPrintedTimesCanBeTyped(t *testing.T) {
	named := map[string]string{"RFC3339": time.RFC3339, "RFC3339Nano": time.RFC3339Nano, "DateTime": time.DateTime, "DateOnly": time.DateOnly, "TimeOnly": time.TimeOnly}
	at := time.Date(2026, 2, 28, 13, 30, 1, 402_500_000, time.FixedZone("", 3600))
	forms := 0
	each := func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return err
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, 0)
		if err != nil {
			return err
		}
		ast.Inspect(file, func(n ast.Node) bool {
			call, ok := n.(*ast.CallExpr)
			if !ok || len(call.Args) != 1 {
				return true
			}
			if of, ok := call.Fun.(*ast.SelectorExpr); !ok || of.Sel.Name != "Format" {
				return true
			}
			form := ""
			switch arg := call.Args[0].(type) {
			case *ast.BasicLit:
				form, _ = strconv.Unquote(arg.Value)
			case *ast.SelectorExpr:
				form = named[arg.Sel.Name]
			}
			if form == "" || noTimes[form] != "" {
				return true
			}
			forms++
			text := at.Format(form)
			back, err := view.ParseTime(text, at)
			if err != nil {
				t.Errorf("%s prints %q (%s), and nobody can type that: %v", path, text, form, err)
			} else if again := back.In(at.Location()).Format(form); again != text {
				t.Errorf("%s prints %q (%s), and that is taken for %q", path, text, form, again)
			}
			return true
		})
		return nil
	}
	for _, of := range printers {
		if err := filepath.WalkDir(filepath.Join("../..", of), each); err != nil {
			t.Fatal(err)
		}
	}
	if forms < 20 {
		t.Errorf("only %d forms were found", forms)
	}
}
