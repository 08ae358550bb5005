package cli

import (
	"encoding/json"
	"time"

	"github.com/spf13/cobra"

	"github.com/holdfast-storage/holdfast/admin/certify"
	"github.com/holdfast-storage/holdfast/cmd/certify/blocks"
	"github.com/holdfast-storage/holdfast/cmd/exit"
	"github.com/holdfast-storage/holdfast/kube/scratch"
)

const (
	// blockPause is between two blocks: the drill is to be noticed, and not the writer.
	blockPause = 20 * time.Millisecond
	// blockLine is between two lines of a pod's log, which the drill reads every now and then.
	blockLine = 250 * time.Millisecond
)

// blocksOptions are the flags of the pods that `certify --write` makes.
type blocksOptions struct {
	file, run            string
	places, acknowledged uint64
}

// certifyBlocksCommand is what these pods run.
func certifyBlocksCommand() *cobra.Command {
	o := &blocksOptions{}
	cmd := &cobra.Command{Use: scratch.Blocks, Short: "Write and read blocks, as a pod of `certify --write`", Hidden: true, Args: noArgs}
	flags := cmd.PersistentFlags()
	flags.StringVar(&o.file, "file", "", "of the blocks")
	flags.StringVar(&o.run, "run", "", "that writes them")
	flags.Uint64Var(&o.places, "places", 0, "of blocks in the file")
	write := &cobra.Command{Use: "write", Short: "Write until it is stopped", Args: noArgs, RunE: func(cmd *cobra.Command, _ []string) error {
		return o.do(func() error {
			w := blocks.Writer{Run: certify.Run(o.run), Path: o.file, Places: o.places, Pause: blockPause, Every: blockLine}
			return w.Write(cmd.Context(), cmd.OutOrStdout())
		})
	}}
	read := &cobra.Command{Use: "read", Short: "Say what is there of what was acknowledged", Args: noArgs, RunE: func(cmd *cobra.Command, _ []string) error {
		return o.do(func() error {
			found, err := (&blocks.Reader{Run: certify.Run(o.run), Path: o.file, Places: o.places, Acknowledged: o.acknowledged}).Read()
			if err != nil {
				return err
			}
			return json.NewEncoder(cmd.OutOrStdout()).Encode(found)
		})
	}}
	read.Flags().Uint64Var(&o.acknowledged, "acknowledged", 0, "highest number that was")
	write.Hidden, read.Hidden = true, true
	cmd.AddCommand(write, read)
	return cmd
}

// do checks the flags first.
func (o *blocksOptions) do(work func() error) error {
	if o.file == "" || o.places == 0 || !certify.Run(o.run).Valid() {
		return exit.Usagef("name --file, --run and --places, as `certify --write` does")
	}
	return exit.Wrap(exit.Refused, work())
}
