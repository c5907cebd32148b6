// Command moduleproxy serves the Go modules of a clone on the loopback, as a module proxy does, so that they can be
// fetched under a path that nobody serves yet. It reads the tags of the clone when it is asked: v1.2.3 is the module at
// the root, client/v1.2.3 the one in client. The zip is made as the go command makes it from a repository, so that its
// sum is the one that everybody else gets.
//
//	moduleproxy CLONE MODULE        # MODULE is the path of the module at the root
//
// It prints its URL, and serves until it is killed.
package main

import (
	"fmt"
	"log"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path"
	"strings"
	"time"

	"golang.org/x/mod/module"
	"golang.org/x/mod/zip"
)

func main() {
	log.SetFlags(0)
	log.SetPrefix("moduleproxy: ")
	if len(os.Args) != 3 {
		log.Fatal("name a clone and the path of its module")
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("http://%s\n", listener.Addr())
	server := &http.Server{Handler: repository{os.Args[1], os.Args[2]}, ReadHeaderTimeout: time.Minute}
	log.Fatal(server.Serve(listener))
}

// repository is a clone and the path of the module at its root.
type repository struct{ dir, module string }

// ServeHTTP answers /MODULE/@v/list and /MODULE/@v/VERSION.info, .mod and .zip. Anything else is not found, so that the
// go command asks its next proxy.
func (r repository) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	escaped, file, _ := strings.Cut(strings.TrimPrefix(req.URL.Path, "/"), "/@v/")
	modulePath, err := module.UnescapePath(escaped)
	subdir, isOurs := strings.CutPrefix(modulePath+"/", r.module+"/")
	if err != nil || !isOurs {
		http.NotFound(w, req)
		return
	}
	subdir = strings.TrimSuffix(subdir, "/")
	if file == "list" {
		prefix := path.Join(subdir, "v")
		tags, err := r.git("tag", "--list", prefix+"[0-9]*")
		answer(w, strings.ReplaceAll("\n"+tags, "\n"+prefix, "\nv")[1:], err)
		return
	}
	kind := path.Ext(file)
	version := strings.TrimSuffix(file, kind)
	tag := path.Join(subdir, version)
	if _, err := r.git("rev-parse", "--verify", "--quiet", "refs/tags/"+tag); err != nil {
		http.NotFound(w, req)
		return
	}
	switch kind {
	case ".info":
		committed, err := r.git("log", "-1", "--format=%cI", tag)
		answer(w, fmt.Sprintf(`{"Version": %q, "Time": %q}`, version, strings.TrimSpace(committed)), err)
	case ".mod":
		text, err := r.git("show", tag+":"+path.Join(subdir, "go.mod"))
		answer(w, text, err)
	case ".zip":
		var body strings.Builder
		err := zip.CreateFromVCS(&body, module.Version{Path: modulePath, Version: version}, r.dir, tag, subdir)
		answer(w, body.String(), err)
	default:
		http.NotFound(w, req)
	}
}

func (r repository) git(args ...string) (string, error) {
	cmd := exec.Command("git", args...)
	cmd.Dir, cmd.Stderr = r.dir, os.Stderr
	out, err := cmd.Output()
	return string(out), err
}

func answer(w http.ResponseWriter, text string, err error) {
	if err != nil {
		log.Print(err)
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	fmt.Fprint(w, text)
}
