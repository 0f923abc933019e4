package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"golang.org/x/crypto/ssh"
)

// serveGit answers `git-upload-pack '<path>'` over ssh for the bare
// repositories below --root, with the given host key, to the one client key
// that it is told. Everything else is refused: it is the least ssh server
// that a real ssh client and a real git can fetch from.
func serveGit(args []string) error {
	flags := flag.NewFlagSet("git-ssh", flag.ContinueOnError)
	listen := flags.String("listen", "127.0.0.1:0", "address to listen on")
	root := flags.String("root", "", "folder that holds the bare repositories")
	hostKey := flags.String("host-key", "", "file with the private host key (OpenSSH or PEM)")
	clientKey := flags.String("client-key", "", "file with the public key that may log in (authorized_keys form)")
	portFile := flags.String("port-file", "", "file to write the listening port to, once it listens")
	if err := flags.Parse(args); err != nil {
		return err
	}
	config, err := serverConfig(*hostKey, *clientKey)
	if err != nil {
		return err
	}
	listener, err := net.Listen("tcp", *listen)
	if err != nil {
		return err
	}
	if *portFile != "" {
		port := fmt.Sprintln(listener.Addr().(*net.TCPAddr).Port)
		if err := os.WriteFile(*portFile+".new", []byte(port), 0o644); err != nil {
			return err
		}
		if err := os.Rename(*portFile+".new", *portFile); err != nil {
			return err
		}
	}
	for {
		connection, err := listener.Accept()
		if err != nil {
			return err
		}
		go serveConnection(connection, config, *root)
	}
}

func serverConfig(hostKey, clientKey string) (*ssh.ServerConfig, error) {
	private, err := os.ReadFile(hostKey)
	if err != nil {
		return nil, err
	}
	signer, err := ssh.ParsePrivateKey(private)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", hostKey, err)
	}
	public, err := os.ReadFile(clientKey)
	if err != nil {
		return nil, err
	}
	allowed, _, _, _, err := ssh.ParseAuthorizedKey(public)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", clientKey, err)
	}
	config := &ssh.ServerConfig{
		PublicKeyCallback: func(_ ssh.ConnMetadata, key ssh.PublicKey) (*ssh.Permissions, error) {
			if string(key.Marshal()) != string(allowed.Marshal()) {
				return nil, errors.New("this key may not log in")
			}
			return nil, nil
		},
	}
	config.AddHostKey(signer)
	return config, nil
}

func serveConnection(connection net.Conn, config *ssh.ServerConfig, root string) {
	defer connection.Close()
	server, channels, requests, err := ssh.NewServerConn(connection, config)
	if err != nil {
		fmt.Fprintln(os.Stderr, "git-ssh: handshake:", err)
		return
	}
	defer server.Close()
	go ssh.DiscardRequests(requests)
	for offered := range channels {
		if offered.ChannelType() != "session" {
			_ = offered.Reject(ssh.UnknownChannelType, "only sessions")
			continue
		}
		channel, requests, err := offered.Accept()
		if err != nil {
			return
		}
		go serveSession(channel, requests, root)
	}
}

// serveSession runs the one command of a session. GIT_PROTOCOL is the only
// variable that a client may set; git asks for protocol version 2 with it.
func serveSession(channel ssh.Channel, requests <-chan *ssh.Request, root string) {
	defer channel.Close()
	protocol := ""
	for request := range requests {
		switch request.Type {
		case "env":
			var pair struct{ Name, Value string }
			ok := ssh.Unmarshal(request.Payload, &pair) == nil && pair.Name == "GIT_PROTOCOL"
			if ok {
				protocol = pair.Value
			}
			_ = request.Reply(ok, nil)
		case "exec":
			var command struct{ Line string }
			if err := ssh.Unmarshal(request.Payload, &command); err != nil {
				_ = request.Reply(false, nil)
				return
			}
			_ = request.Reply(true, nil)
			status := uploadPack(channel, command.Line, protocol, root)
			_, _ = channel.SendRequest("exit-status", false, ssh.Marshal(struct{ Status uint32 }{status}))
			return
		default:
			_ = request.Reply(false, nil)
		}
	}
}

func uploadPack(channel ssh.Channel, line, protocol, root string) uint32 {
	quoted, found := strings.CutPrefix(line, "git-upload-pack ")
	if !found {
		fmt.Fprintln(channel.Stderr(), "git-ssh: only git-upload-pack is served")
		return 128
	}
	asked := strings.Trim(quoted, "'")
	path := filepath.Join(root, filepath.Clean("/"+asked))
	command := exec.Command("git", "upload-pack", "--strict", path)
	command.Env = append(os.Environ(), "GIT_PROTOCOL="+protocol)
	command.Stdout, command.Stderr = channel, channel.Stderr()
	stdin, err := command.StdinPipe()
	if err != nil {
		return 128
	}
	if err := command.Start(); err != nil {
		fmt.Fprintln(channel.Stderr(), "git-ssh:", err)
		return 128
	}
	go func() {
		_, _ = io.Copy(stdin, channel)
		_ = stdin.Close()
	}()
	if err := command.Wait(); err != nil {
		var exit *exec.ExitError
		if errors.As(err, &exit) {
			return uint32(exit.ExitCode())
		}
		return 128
	}
	return 0
}
