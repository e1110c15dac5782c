package house

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
)

// thisModule has the packages of this module, which are read once.
var thisModule = sync.OnceValues(func() ([]pkg, error) { return readModule("../..") })

// readModule reads all packages of the module at root, for all platforms.
func readModule(root string) ([]pkg, error) {
	list := exec.Command("go", "list", "-json=Dir,ImportPath,GoFiles,CgoFiles,IgnoredGoFiles,TestGoFiles,XTestGoFiles", "./...")
	list.Dir = root
	list.Stderr = new(bytes.Buffer)
	out, err := list.Output()
	if err != nil {
		return nil, fmt.Errorf("go list: %w: %s", err, list.Stderr)
	}
	var pkgs []pkg
	for d := json.NewDecoder(bytes.NewReader(out)); ; {
		var listed struct {
			Dir, ImportPath                                              string
			GoFiles, CgoFiles, IgnoredGoFiles, TestGoFiles, XTestGoFiles []string
		}
		if err := d.Decode(&listed); errors.Is(err, io.EOF) {
			return pkgs, nil
		} else if err != nil {
			return nil, fmt.Errorf("go list: %w", err)
		}
		p := pkg{path: strings.TrimPrefix(listed.ImportPath, module)}
		if listed.ImportPath+"/" == module {
			p.path = "."
		}
		for _, name := range slices.Concat(listed.GoFiles, listed.CgoFiles, listed.IgnoredGoFiles, listed.TestGoFiles, listed.XTestGoFiles) {
			source, err := os.ReadFile(filepath.Join(listed.Dir, name))
			if errors.Is(err, os.ErrNotExist) {
				continue // it was removed since it was listed
			}
			if err != nil {
				return nil, err
			}
			f, err := readFile(name, source)
			if err != nil {
				return nil, err
			}
			p.files = append(p.files, f)
		}
		pkgs = append(pkgs, p)
	}
}

// readFile reads from one source what the rules need.
func readFile(name string, source []byte) (file, error) {
	tree, err := parser.ParseFile(token.NewFileSet(), name, source, parser.SkipObjectResolution)
	if err != nil {
		return file{}, err
	}
	f := file{name: name, test: strings.HasSuffix(name, "_test.go")}
	named := map[string]string{} // import path by the name that the file knows it by
	for _, spec := range tree.Imports {
		imported, err := strconv.Unquote(spec.Path.Value)
		if err != nil {
			return file{}, err
		}
		f.imports = append(f.imports, imported)
		local := packageName(imported)
		if spec.Name != nil {
			local = spec.Name.Name
		}
		named[local] = imported
	}
	ast.Inspect(tree, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.GoStmt:
			f.goroutines++
		case *ast.TypeSpec:
			if in, ok := n.Type.(*ast.InterfaceType); ok && !f.test {
				f.ports = append(f.ports, readPort(n.Name.Name, in))
			}
		case *ast.BasicLit:
			if strings.Contains(n.Value, "CONSUMER.LIST") || strings.Contains(n.Value, "CONSUMER.NAMES") {
				f.lists = append(f.lists, n.Value)
			}
		case *ast.SelectorExpr:
			if slices.Contains(listing, n.Sel.Name) {
				f.lists = append(f.lists, n.Sel.Name)
			}
			of, ok := n.X.(*ast.Ident)
			if !ok {
				break
			}
			if from, ok := named[of.Name]; ok {
				f.uses = append(f.uses, use{from, n.Sel.Name})
			} else if slices.Contains([]string{"t", "b", "f", "tb"}, of.Name) && slices.Contains([]string{"Skip", "Skipf", "SkipNow"}, n.Sel.Name) {
				f.skips = append(f.skips, of.Name+"."+n.Sel.Name)
			}
		}
		return true
	})
	return f, nil
}

// readPort reads an interface.
func readPort(name string, in *ast.InterfaceType) port {
	p := port{name: name}
	for _, m := range in.Methods.List {
		switch of := m.Type.(type) {
		case *ast.FuncType:
			p.methods += len(m.Names)
		case *ast.Ident:
			p.embeds = append(p.embeds, of.Name)
		case *ast.SelectorExpr:
			if from, ok := of.X.(*ast.Ident); ok {
				p.embeds = append(p.embeds, from.Name+"."+of.Sel.Name)
			}
		}
	}
	return p
}

var majorVersion = regexp.MustCompile(`^v[0-9]+$`)

// packageName guesses a package's name from its path, as goimports does.
func packageName(imported string) string {
	base := path.Base(imported)
	if majorVersion.MatchString(base) && strings.Contains(imported, "/") {
		base = path.Base(path.Dir(imported))
	}
	base, _, _ = strings.Cut(base, ".") // nats.go is nats
	return strings.TrimPrefix(base, "go-")
}
