package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"syscall"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"github.com/spf13/cobra"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/holdfast-storage/holdfast/cmd/config"
	"github.com/holdfast-storage/holdfast/cmd/daemon"
	"github.com/holdfast-storage/holdfast/cmd/exit"
	"github.com/holdfast-storage/holdfast/csi/mounthelper"
	"github.com/holdfast-storage/holdfast/csi/server"
)

// mountConfig is the configuration of the mount helper where --config names none: mount(8) passes none.
const mountConfig = "/etc/holdfast/mount.yaml"

// hostMounts is how this host's mounts are reached: its node, the controllers, and its records.
type hostMounts struct {
	connection
	csiEndpoint, folder string
	wait                time.Duration
	helper              bool
	reason              string
	warnings            io.Writer
}

// add adds the flags, and the configuration file of a host.
func (m *hostMounts) add(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVar(&m.dir, "dir", "", "`folder` of a developer's cluster: its controllers and its certificate are used")
	flags.StringSliceVar(&m.endpoints, "endpoints", nil, "API `addresses` of the controllers, host:port")
	daemon.AddTLSFlags(flags, &m.files)
	flags.StringVar(&m.csiEndpoint, "csi-endpoint", "unix:///run/holdfast/node.sock", "CSI `socket` of the node of this host")
	flags.StringVar(&m.folder, "mounts-dir", "/var/lib/holdfast/mounts", "`folder` of this host's records of what it mounts, and of staged volumes; the node must allow it")
	flags.DurationVar(&m.wait, "wait", 90*time.Second, "how long the controllers and the node may not answer")
	flags.BoolVar(&m.helper, "helper", false, "end with mount(8)'s exit codes")
	_ = flags.MarkHidden("helper") // the flag is there
	config.AddFlag(flags)
	m.output, m.timeout = "table", changeTimeout
	cmd.PersistentPreRunE = func(cmd *cobra.Command, args []string) error {
		m.warnings = cmd.ErrOrStderr()
		file := cmd.Flags().Lookup(config.FileFlag)
		_, inEnvironment := os.LookupEnv(config.EnvName(config.FileFlag))
		if _, err := os.Stat(mountConfig); !errors.Is(err, fs.ErrNotExist) && !file.Changed && !inEnvironment {
			if err := file.Value.Set(mountConfig); err != nil {
				return err
			}
		}
		return fillFlags(cmd, args)
	}
}

// open connects to the node and, when it is called, to the controllers.
func (m *hostMounts) open(ctx context.Context, evenIfOrchestrated bool) (*mounthelper.Helper, func(), error) {
	client, err := m.client(ctx)
	if err != nil {
		return nil, nil, err
	}
	path, err := server.SocketPath(m.csiEndpoint)
	if err != nil {
		return nil, nil, exit.Wrap(exit.Usage, err)
	}
	quick := backoff.Config{BaseDelay: 100 * time.Millisecond, Multiplier: 1.5, MaxDelay: time.Second}
	conn, err := grpc.NewClient("unix://"+path, grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithAuthority("localhost"),
		grpc.WithConnectParams(grpc.ConnectParams{Backoff: quick, MinConnectTimeout: time.Second}))
	if err != nil {
		return nil, nil, exit.Wrap(exit.Usage, err)
	}
	if err := os.MkdirAll(m.folder, 0o700); err != nil {
		return nil, nil, exit.Usagef("make the folder of mounts: %w", errors.Join(err, conn.Close()))
	}
	return &mounthelper.Helper{
		Controllers: &apiControllers{client: client, reason: m.reason, evenIfOrchestrated: evenIfOrchestrated, warnings: m.warnings},
		Node:        csi.NewNodeClient(conn), Table: mounthelper.NewHostTable(), Dir: m.folder, Patience: m.wait,
	}, func() { _ = conn.Close() }, nil
}

// isHelper tells whether the command was called by mount(8) or umount(8).
func isHelper(cmd *cobra.Command) bool {
	helper, err := cmd.Flags().GetBool("helper")
	return err == nil && helper
}

func mountCommand() *cobra.Command {
	m, lists := &hostMounts{}, []string{}
	var fake, noTable, sloppy, verbose bool
	var namespace, fsType string
	cmd := &cobra.Command{Use: "mount ID|NAME PATH", Short: "Mount a volume on a host without an orchestrator", Args: exactArgs("a volume's id or name", "a path"),
		Long: "Publishes a volume to this host, stages it and mounts it on a folder; a raw volume's device appears at a file. It is\n" +
			"what `mount -t holdfast NAME PATH` calls where /sbin/mount.holdfast is a link to this program. What is mounted is done,\n" +
			"and after an interruption the same command goes on. A volume that is published to another host is refused.\n" +
			"Options beside those of the filesystem that the node serves: ro; secrets=FILE, a YAML file of mode 0600 with\n" +
			"encryptionPassphrase, of an encrypted volume; wait=30s, how long who does not answer is asked again;\n" +
			"even-if-orchestrated. Without --config, " + mountConfig + " is read where it is there.",
		RunE: func(cmd *cobra.Command, args []string) error {
			o, err := parseMountOptions(lists)
			if err != nil || fake {
				return err
			}
			if namespace != "" {
				return exit.Usagef("mount %s: another mount namespace is not served", args[0])
			}
			if o.wait > 0 {
				m.wait = o.wait
			}
			return m.mount(cmd.Context(), args[0], args[1], &o)
		}}
	m.add(cmd)
	reasonFlag(cmd, &m.reason)
	flags := cmd.Flags()
	flags.StringArrayVarP(&lists, "options", "o", nil, "mount `options`, separated by commas; repeatable")
	flags.BoolVarP(&fake, "fake", "f", false, "check the options, and mount nothing")
	flags.BoolVarP(&noTable, "no-mtab", "n", false, "as of mount(8); without effect")
	flags.BoolVarP(&sloppy, "sloppy", "s", false, "as of mount(8); without effect")
	flags.BoolVarP(&verbose, "verbose", "v", false, "as of mount(8); without effect")
	flags.StringVarP(&fsType, "types", "t", "", "as of mount(8); without effect")
	flags.StringVarP(&namespace, "namespace", "N", "", "as of mount(8); not served")
	return cmd
}

func (m *hostMounts) mount(ctx context.Context, volume, path string, o *mountOptions) error {
	secrets, err := readSecrets(o.secrets)
	if err != nil {
		return err
	}
	target, err := absoluteTarget(path)
	if err != nil {
		return err
	}
	helper, closing, err := m.open(ctx, o.evenIfOrchestrated)
	if err != nil {
		return err
	}
	defer closing()
	err = helper.Mount(ctx, mounthelper.Request{Volume: volume, Target: target, ReadOnly: o.readOnly, Flags: o.flags, Secrets: secrets})
	return callError("mount "+volume+" on "+target, err)
}

func umountCommand() *cobra.Command {
	m := &hostMounts{}
	var force, lazy, noTable, readOnly, verbose bool
	var namespace, fsType string
	cmd := &cobra.Command{Use: "umount PATH", Short: "Unmount a volume, and give it back", Args: exactArgs("a path"),
		Long: "Unmounts what `mount` mounted, unstages it and ends its publication to this host, so that another one may use it. It is\n" +
			"what `umount PATH` calls where /sbin/umount.holdfast is a link to this program. Nothing is done by force: what is in use\n" +
			"is refused. Without a controller it is unmounted, and `holdfast mounts release` gives it back later.",
		RunE: func(cmd *cobra.Command, args []string) error {
			if force || lazy || readOnly || namespace != "" {
				return exit.Usagef("umount %s: a volume is unmounted in this mount namespace, and neither by force, nor lazily, nor to be left read-only: end what uses it", args[0])
			}
			return m.umount(cmd, args[0])
		}}
	m.add(cmd)
	reasonFlag(cmd, &m.reason)
	flags := cmd.Flags()
	flags.BoolVarP(&force, "force", "f", false, "as of umount(8); refused")
	flags.BoolVarP(&lazy, "lazy", "l", false, "as of umount(8); refused")
	flags.BoolVarP(&readOnly, "read-only", "r", false, "as of umount(8); refused")
	flags.BoolVarP(&noTable, "no-mtab", "n", false, "as of umount(8); without effect")
	flags.BoolVarP(&verbose, "verbose", "v", false, "as of umount(8); without effect")
	flags.StringVarP(&fsType, "types", "t", "", "as of umount(8); without effect")
	flags.StringVarP(&namespace, "namespace", "N", "", "as of umount(8); not served")
	return cmd
}

func (m *hostMounts) umount(cmd *cobra.Command, path string) error {
	target, err := absoluteTarget(path)
	if err != nil {
		return err
	}
	helper, closing, err := m.open(cmd.Context(), false)
	if err != nil {
		return err
	}
	defer closing()
	err = helper.Unmount(cmd.Context(), target)
	var notGivenBack *mounthelper.NotGivenBackError
	if errors.As(err, &notGivenBack) { // it is unmounted
		fmt.Fprintln(cmd.ErrOrStderr(), exit.Line(exit.Wrap(exit.OK, err)))
		return nil
	}
	return callError("unmount "+target, err)
}

func ownedByUs(info fs.FileInfo) bool {
	st, ok := info.Sys().(*syscall.Stat_t)
	return ok && (st.Uid == 0 || int(st.Uid) == os.Geteuid())
}
