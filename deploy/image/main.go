// Command image makes what Holdfast is shipped as: the OCI image and the Debian package. `make image` and `make deb` call it.
package main

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"time"
)

// options are the flags, the same for all verbs.
type options struct {
	dir, out, lock, binary    string
	version, revision, mirror string
	epoch                     int64
	repository                string
}

func (o *options) flags() *flag.FlagSet {
	f := flag.NewFlagSet("image", flag.ExitOnError)
	f.StringVar(&o.dir, "dir", ".", "`folder` of the lists of packages; absolute")
	f.StringVar(&o.out, "out", "", "`folder` for what is made")
	f.StringVar(&o.lock, "lock", "packages.lock", "`file` of exact versions of packages")
	f.StringVar(&o.binary, "binary", "", "the static `program`")
	f.StringVar(&o.version, "version", "", "`version` of Holdfast")
	f.StringVar(&o.revision, "revision", "", "`commit` that the program was built from")
	f.StringVar(&o.mirror, "mirror", "", "`addresses` of the archive and of its security updates; this machine's by default")
	f.Int64Var(&o.epoch, "epoch", 0, "the commit's time in `seconds`")
	f.StringVar(&o.repository, "repository", "../..", "`folder` of the product's source")
	return f
}

func (o *options) time() time.Time   { return time.Unix(o.epoch, 0).UTC() }
func (o *options) mirrors() []string { return strings.Fields(o.mirror) }

var verbs = map[string]func(*options) error{"lock": lock, "image": image, "check": checkImage, "deb": debianPackage}

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "image:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	if len(args) == 0 || verbs[args[0]] == nil {
		return fmt.Errorf("usage: image lock|image|check|deb FLAGS")
	}
	o := &options{}
	if err := o.flags().Parse(args[1:]); err != nil {
		return err
	}
	return verbs[args[0]](o)
}
