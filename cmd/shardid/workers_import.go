package main

import (
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"

	"shardid/model"
	"shardid/repository/workerfile"
	"shardid/service/access"
	"shardid/service/yamlfile"

	"github.com/spf13/cobra"
)

func (c *cli) workersImport() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "import FILE",
		Short: "Go on with the worker ID that Java Leaf keeps in workerID.properties, or its fork in workerID.json",
		Long: `Go on with the worker ID that Java Leaf keeps in workerID.properties, or its fork in
workerID.json, with snowflake.worker.mode: local. Stop the Java process first: IDs start
ten seconds above this moment, or above the time in the file or of the file when that is
later. snowflake.advertise is the ip:port of the instance, and snowflake.worker.local_map
gives it that worker ID. The result is worker.json in data_dir.`,
		Example: `  shardid workers import /tmp/com.example.leaf/leafconf/8080/workerID.properties
  shardid workers import /tmp/com.example.leaf/leafconf/8080/workerID.json`,
		Args: cobra.ExactArgs(1),
	}
	return c.command(cmd, func(cmd *cobra.Command, args []string, cfg Config) error {
		leaf, info, err := readLeaf(args[0])
		if err == nil {
			err = fitsLeaf(cfg, leaf)
		}
		if err != nil {
			return fmt.Errorf("%w: %w", model.ErrInvalidArgument, err)
		}
		if err := needData(cmd.Context(), cfg); err != nil { // whose absence a worker file would take for a loss
			return err
		}
		address := cfg.Snowflake.Advertise
		file, err := workerfile.Open(workerFileOptions(cfg, cfg.Snowflake.Name, address, snowflakeLayout(cfg)))
		if err != nil {
			return err
		}
		defer file.Close()
		from, err := file.Adopt(leaf, info.ModTime())
		if err != nil {
			return err
		}
		result := map[string]any{"workerId": leaf.WorkerID, "address": address, "from": from.UTC()}
		return c.print(cmd, result, func(w io.Writer) {
			fmt.Fprintf(w, "%s goes on with worker ID %d, above %s\n", address, leaf.WorkerID, instant(from))
		})
	})
}

func readLeaf(name string) (leaf workerfile.LeafFile, info os.FileInfo, err error) {
	if err = access.Regular(name); err != nil {
		return leaf, nil, err
	}
	text, err := yamlfile.Read(name)
	if err != nil {
		return leaf, nil, err
	}
	if leaf, err = workerfile.ParseLeaf(text); err != nil {
		return leaf, nil, fmt.Errorf("%s: %w", name, err)
	}
	info, err = os.Stat(name)
	return leaf, info, err
}

// fitsLeaf says what of the configuration is not that of the Java process.
func fitsLeaf(cfg Config, leaf workerfile.LeafFile) error {
	s := cfg.Snowflake
	id, listed := s.Worker.LocalMap[s.Advertise]
	switch {
	case s.Worker.Mode != workerLocal:
		return fmt.Errorf("snowflake.worker.mode is %s: this command is for mode %s, others ask their registry", s.Worker.Mode, workerLocal)
	case s.Advertise == "":
		return fmt.Errorf("snowflake.advertise is empty: set it to the ip:port of the Java process")
	case leaf.Address != "" && leaf.Address != s.Advertise:
		return fmt.Errorf("the file is that of %s and snowflake.advertise is %s: name the file of this instance", leaf.Address, s.Advertise)
	case !listed || id != leaf.WorkerID:
		return fmt.Errorf("snowflake.worker.local_map does not give %s the worker ID %d of the file: correct one of them", s.Advertise, leaf.WorkerID)
	}
	return nil
}

// workerFileOptions are those of the worker file of an instance under a name.
func workerFileOptions(cfg Config, name, address string, layout model.SnowflakeLayout) workerfile.Options {
	_, port, _ := net.SplitHostPort(address) // instanceAddress and the configuration have checked it
	mode := cfg.Snowflake.Worker.Mode
	return workerfile.Options{
		Dir: filepath.Join(cfg.DataDir, name, port), Registry: mode, Address: address, Layout: layout,
		Moves: mode == workerMySQL || mode == workerZK || mode == workerZKRecycle,
	}
}
