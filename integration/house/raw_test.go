package house

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// foreign are the calls whose errors are in words of Go: value.Plainly says them in Millrace's.
var foreign = map[string][]string{
	"json":    {"Unmarshal", "Decode"},
	"strconv": {"Atoi", "ParseInt", "ParseUint", "ParseFloat", "ParseBool", "Unquote"},
	"time":    {"Parse", "ParseInLocation", "ParseDuration"},
	"url":     {"Parse", "ParseRequestURI", "ParseQuery", "PathUnescape", "QueryUnescape"},
	"base64":  {"DecodeString"},
	"hex":     {"DecodeString"},
}

// untold are the files that may pass them on, and why.
var untold = map[string]string{
	"ipc/clients/go/program.go":    "it imports nothing of the scheduler, and runs within a task",
	"ipc/clients/go/resident.go":   "likewise",
	"events/logtest/decisions.go":  "a test",
	"internal/files/manifest.go":   "it imports nothing; what it reads, another Millrace has written",
	"internal/form/kinds.go":       "it imports nothing; who reads a form says what is wrong with it",
	"events/jet/request/leader.go": "what a NATS server answers",
	"projections/view/diff.go":     "it compares what was encoded a moment ago",
}

// An error of encoding/json, strconv, time, net/url or an encoding does not become part of another
// one, or of a text, as it is.
func TestNoWordsOfGo(t *testing.T) {
	files := token.NewFileSet()
	err := filepath.WalkDir(root(t), func(path string, d fs.DirEntry, err error) error {
		name, _ := filepath.Rel(root(t), path)
		switch {
		case err != nil:
			return err
		case d.IsDir() && (strings.HasPrefix(d.Name(), ".") && name != "." || d.Name() == "testdata" || name == "integration/browser" || name == "integration/harness" || slices.Contains(proofs, name) || name == "examples"):
			return filepath.SkipDir
		case d.IsDir() || !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go"):
			return nil
		}
		file, err := parser.ParseFile(files, path, nil, 0)
		if err != nil {
			return err
		}
		for _, at := range rawWords(file) {
			if place := files.Position(at); untold[name] == "" {
				t.Errorf("%s:%d: an error in words of Go goes on as it is: use value.Plainly", name, place.Line)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// rawWords returns where a function passes such an error on: within a call of fmt.Errorf and the like,
// or by its text.
func rawWords(file *ast.File) (found []token.Pos) {
	for _, decl := range file.Decls {
		is, ok := decl.(*ast.FuncDecl)
		if !ok || is.Body == nil {
			continue
		}
		raw := map[string]bool{} // the variables that hold one now
		ast.Inspect(is.Body, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.AssignStmt:
				for _, right := range n.Rhs {
					ast.Inspect(right, func(n ast.Node) bool { return mention(n, raw, &found) })
				}
				last, ok := n.Lhs[len(n.Lhs)-1].(*ast.Ident)
				if ok && len(n.Rhs) == 1 {
					call, ok := n.Rhs[0].(*ast.CallExpr)
					raw[last.Name] = ok && isForeign(call)
				}
				return false
			case ast.Expr:
				return mention(n, raw, &found)
			}
			return true
		})
	}
	slices.Sort(found)
	return slices.Compact(found)
}

// mention notes a raw error among the arguments of a call; false if nothing below is of interest.
func mention(n ast.Node, raw map[string]bool, found *[]token.Pos) bool {
	call, ok := n.(*ast.CallExpr)
	if !ok {
		return true
	}
	if s, ok := call.Fun.(*ast.SelectorExpr); ok && s.Sel.Name == "Error" {
		if x, ok := s.X.(*ast.Ident); ok && raw[x.Name] {
			*found = append(*found, call.Pos())
		}
	}
	switch name := called(call); {
	case name == "Plainly", strings.HasPrefix(name, "errors."):
		return false
	}
	for _, arg := range call.Args {
		if x, ok := arg.(*ast.Ident); ok && raw[x.Name] {
			*found = append(*found, call.Pos())
		}
	}
	return true
}

func called(call *ast.CallExpr) string {
	switch f := call.Fun.(type) {
	case *ast.Ident:
		return f.Name
	case *ast.SelectorExpr:
		if f.Sel.Name == "Plainly" {
			return f.Sel.Name
		}
		if x, ok := f.X.(*ast.Ident); ok {
			return fmt.Sprint(x.Name, ".", f.Sel.Name)
		}
		return f.Sel.Name
	}
	return ""
}

func isForeign(call *ast.CallExpr) bool {
	f, ok := call.Fun.(*ast.SelectorExpr)
	if !ok {
		return false
	}
	if f.Sel.Name == "Decode" { // of a json.Decoder
		switch x := f.X.(type) {
		case *ast.CallExpr:
			return called(x) == "json.NewDecoder"
		case *ast.Ident:
			return slices.Contains([]string{"d", "dec", "decoder"}, x.Name)
		}
		return false
	}
	x, ok := f.X.(*ast.Ident)
	return ok && slices.Contains(foreign[x.Name], f.Sel.Name) || !ok && f.Sel.Name == "DecodeString" // base64.StdEncoding.DecodeString
}
