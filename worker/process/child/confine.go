package child

import (
	"fmt"
	"slices"
	"strings"
)

// Confinement is what processes lose of the rights of their user.
type Confinement struct {
	// Capabilities are the numbers of the capabilities that processes of root can have, and that
	// any process keeps; see [ParseCapabilities]. Default none (Linux).
	Capabilities []int `json:",omitempty"`
	// AllCapabilities keeps all of them.
	AllCapabilities bool `json:",omitempty"`
	// Open lets processes look into others of their user: their variables, memory, descriptors and
	// root. Default: they look into processes of their own task, and perhaps into those of other
	// tasks that have no secrets (Linux with Landlock).
	Open bool `json:",omitempty"`
	// Hide are folders that processes find empty. It needs the rights of root (Linux).
	Hide []string `json:",omitempty"`
}

// capabilities are the names of the kernel's capabilities; the place is the number.
var capabilities = strings.Fields(`chown dac_override dac_read_search fowner fsetid kill setgid setuid setpcap linux_immutable
	net_bind_service net_broadcast net_admin net_raw ipc_lock ipc_owner sys_module sys_rawio sys_chroot sys_ptrace sys_pacct
	sys_admin sys_boot sys_nice sys_resource sys_time sys_tty_config mknod lease audit_write audit_control setfcap mac_override
	mac_admin syslog wake_alarm block_suspend audit_read perfmon bpf checkpoint_restore`)

// ParseCapabilities sets the capabilities of c: none, all, or names separated by commas, with or
// without cap_ before them.
func (c *Confinement) ParseCapabilities(text string) error {
	c.Capabilities, c.AllCapabilities = nil, text == "all"
	if text == "all" || text == "none" {
		return nil
	}
	for name := range strings.SplitSeq(text, ",") {
		n := slices.Index(capabilities, strings.TrimPrefix(strings.ToLower(strings.TrimSpace(name)), "cap_"))
		if n < 0 {
			return fmt.Errorf("%q is no capability: want none, all, or names such as chown,dac_read_search", name)
		}
		if !slices.Contains(c.Capabilities, n) {
			c.Capabilities = append(c.Capabilities, n)
		}
	}
	return nil
}

// CapabilitiesText is the text from which [Confinement.ParseCapabilities] reads them.
func (c *Confinement) CapabilitiesText() string {
	switch {
	case c.AllCapabilities:
		return "all"
	case len(c.Capabilities) == 0:
		return "none"
	}
	names := make([]string, len(c.Capabilities))
	for i, n := range c.Capabilities {
		names[i] = capabilities[n]
	}
	return strings.Join(names, ",")
}
