package request

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/user"
	"path/filepath"
	"slices"
	"strings"

	"millrace/task/value"
)

// Context is the content of a context. Empty fields have no effect. Names of files may begin with ~
// and contain variables of the environment, such as $HOME.
type Context struct {
	Description string `json:"description"`
	// URL is one address or several, separated by commas.
	URL        string `json:"url"`
	SocksProxy string `json:"socks_proxy"`
	Token      string `json:"token"`
	User       string `json:"user"`
	Password   string `json:"password"`
	Creds      string `json:"creds"` // file, or op:// and a secret that the program op reads
	NKey       string `json:"nkey"`  // file with a seed
	Cert       string `json:"cert"`  // file
	Key        string `json:"key"`   // file
	CA         string `json:"ca"`    // file
	// NSC is a user whose URL and credentials the program nsc knows.
	NSC           string `json:"nsc"`
	JSDomain      string `json:"jetstream_domain"`
	JSAPIPrefix   string `json:"jetstream_api_prefix"`
	JSEventPrefix string `json:"jetstream_event_prefix"`
	InboxPrefix   string `json:"inbox_prefix"`
	UserJWT       string `json:"user_jwt"`
	UserSeed      string `json:"user_seed"`
	ColorScheme   string `json:"color_scheme"`
	TLSFirst      bool   `json:"tls_first"`
	WinCertStore  string `json:"windows_cert_store"`
	WinCertBy     string `json:"windows_cert_match_by"`
	WinCert       string `json:"windows_cert_match"`
	// WinCA are criteria for authorities in the certificate store of Windows.
	WinCA []string `json:"windows_ca_certs_match"`
}

// ErrUnknown: there is no context of that name.
var ErrUnknown = errors.New("there is no such context of the nats command line")

// folder is where the nats command line keeps its settings.
func folder() (string, error) {
	if dir := os.Getenv("XDG_CONFIG_HOME"); dir != "" {
		return filepath.Join(dir, "nats"), nil
	}
	u, err := user.Current()
	if err != nil {
		return "", fmt.Errorf("contexts of the nats command line: %w", err)
	}
	if u.HomeDir == "" {
		return "", errors.New("contexts of the nats command line: this user has no home directory")
	}
	return filepath.Join(u.HomeDir, ".config", "nats"), nil
}

// Path returns the file of the context of a name, whether it exists or not.
func Path(name string) (string, error) {
	if name == "" || strings.Contains(name, "..") || strings.ContainsAny(name, `/\`) {
		return "", fmt.Errorf("%q is no name of a context", name)
	}
	dir, err := folder()
	if err != nil {
		return "", err
	}
	return filepath.Join(dir, "context", name+".json"), nil
}

// Load reads the context of a name, or the one in a file if name is a path. The error wraps
// [ErrUnknown] if there is none of that name.
func Load(name string) (Context, error) {
	path := name
	if !strings.ContainsRune(name, filepath.Separator) {
		var err error
		if path, err = Path(name); err != nil {
			return Context{}, err
		}
	}
	body, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return Context{}, fmt.Errorf("%w: %s", ErrUnknown, name)
	}
	var c Context
	if err == nil {
		err = json.Unmarshal(body, &c)
	}
	if err != nil {
		return Context{}, fmt.Errorf("context %s: %w", name, value.Plainly(err))
	}
	return c, nil
}

// Save writes the context under a name, readable for this user alone, and replaces an existing one.
func (c Context) Save(name string) error {
	path, err := Path(name)
	if err != nil {
		return err
	}
	body, err := json.MarshalIndent(c, "", "  ")
	if err == nil {
		err = os.MkdirAll(filepath.Dir(path), 0o700)
	}
	if err == nil {
		err = WriteSecret(path, body)
	}
	if err != nil {
		return fmt.Errorf("context %s: %w", name, err)
	}
	return nil
}

// Known returns the names of all contexts, in order.
func Known() []string {
	dir, err := folder()
	if err != nil {
		return nil
	}
	entries, err := os.ReadDir(filepath.Join(dir, "context"))
	if err != nil {
		return nil
	}
	var names []string
	for _, e := range entries {
		name, ours := strings.CutSuffix(e.Name(), ".json")
		if info, err := e.Info(); ours && err == nil && !e.IsDir() && info.Size() > 0 {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// Selected returns the context that the nats command line uses by default; "" if there is none.
func Selected() string {
	dir, err := folder()
	if err != nil {
		return ""
	}
	name, err := os.ReadFile(filepath.Join(dir, "context.txt"))
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(name))
}
