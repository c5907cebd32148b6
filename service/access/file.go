package access

import (
	"errors"
	"fmt"

	"shardid/service/yamlfile"

	"go.yaml.in/yaml/v3"
)

// maxTokens bounds a file, which is read every few seconds by whoever writes it again
// and again.
const maxTokens = 10_000

// errNoTokens: a file that was emptied by accident must not close the service.
var errNoTokens = errors.New("has no token: if that is meant, write []; else restore it, or add one by shardid token new --append")

// ReadFile reads the tokens of a file. The error has file, line and key in one line and
// shows nothing that could be a token.
func ReadFile(name string) ([]*Token, error) {
	data, err := yamlfile.Read(name)
	if err != nil {
		return nil, fmt.Errorf("%w: give the service a file that it may read, shardid token new --append makes one", err)
	}
	return Parse(name, data)
}

// Parse is ReadFile for what is read already; name is for messages.
func Parse(name string, data []byte) ([]*Token, error) {
	root, err := yamlfile.Parse(name, data)
	switch {
	case err != nil:
		return nil, err
	case root == nil:
		return nil, fmt.Errorf("%s: %w", yamlfile.At(name, nil), errNoTokens)
	case root.Kind != yaml.SequenceNode:
		return nil, yamlfile.Fail(name, root, "", "is not a list: begin each token with - name:")
	case len(root.Content) > maxTokens:
		return nil, yamlfile.Fail(name, nil, "", fmt.Sprintf("has %d tokens, at most %d are allowed", len(root.Content), maxTokens))
	}
	var all []*Token
	seen := map[digest]bool{}
	for _, node := range root.Content {
		e := entry{file: name, node: node, token: &Token{}, at: map[string]*yaml.Node{}}
		if err := e.read(); err != nil {
			return nil, err
		}
		if seen[e.token.sum] {
			return nil, e.fail("sha256", "is there twice: keep one")
		}
		seen[e.token.sum] = true
		all = append(all, e.token)
	}
	return all, nil
}
