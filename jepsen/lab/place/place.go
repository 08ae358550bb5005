package place

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// Last is the highest number of a lab: its subnets are 10.99.250.0/24 to 10.99.252.0/24.
const Last = 60

// RootVariable names another directory for the labs of this machine than DefaultRoot.
const RootVariable = "HOLDFAST_LAB_ROOT"

// DefaultRoot holds the directories of all labs. It is short: the kernel's sockets lie below it.
const DefaultRoot = "/var/tmp/holdfast-lab"

// Paths is what the lab of a number owns.
type Paths struct {
	Root   string
	Number int
}

// PathsOf is the place of a lab: numbers go from 1 to Last.
func PathsOf(number int) Paths {
	root := os.Getenv(RootVariable)
	if root == "" {
		root = DefaultRoot
	}
	return Paths{Root: root, Number: number}
}

// Dir is the lab's directory.
func (p Paths) Dir() string { return filepath.Join(p.Root, fmt.Sprint(p.Number)) }

// Lock is the file whose flock marks the number as taken.
func (p Paths) Lock() string { return filepath.Join(p.Root, fmt.Sprintf("%d.lock", p.Number)) }

// GuardLog is what the guard of the lab had to say.
func (p Paths) GuardLog() string { return filepath.Join(p.Root, fmt.Sprintf("%d.guard.log", p.Number)) }

// Guest is the directory of a guest, from 1.
func (p Paths) Guest(i int) string { return filepath.Join(p.Dir(), fmt.Sprintf("n%d", i)) }

// UML is the directory that a guest's kernel keeps its sockets in; it is on the command line of
// each of its processes.
func (p Paths) UML(i int) string { return filepath.Join(p.Guest(i), "uml") }

// Bridge is a bridge's name: net is the letter of the network.
func (p Paths) Bridge(net string) string { return fmt.Sprintf("hf%d%s", p.Number, net) }

// Tap is the name of a guest's tap on a network.
func (p Paths) Tap(net string, i int) string { return fmt.Sprintf("hf%d%s%d", p.Number, net, i) }

// Table is the name of the nftables table, of the family bridge.
func (p Paths) Table() string { return fmt.Sprintf("hflab%d", p.Number) }

// isOwn reports whether a network device is of this lab.
func (p Paths) isOwn(device string) bool {
	rest, found := strings.CutPrefix(device, fmt.Sprintf("hf%d", p.Number))
	if !found || rest == "" || !strings.Contains("rma", rest[:1]) {
		return false
	}
	return strings.Trim(rest[1:], "0123456789") == ""
}
