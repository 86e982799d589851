// A real OpenID provider for tests (https://github.com/panva/node-oidc-provider), in memory, on a port of loopback. Arguments: the client's
// redirect URI, its id and its secret. It prints its issuer once it listens, and ends with its standard input.
import { createServer } from "node:http";
import { Provider } from "oidc-provider";

const [redirect, id, secret] = process.argv.slice(2);
let handle;
const server = createServer((request, response) => handle(request, response));
server.listen(0, "127.0.0.1", () => {
  const issuer = `http://127.0.0.1:${server.address().port}`;
  const provider = new Provider(issuer, {
    clients: [
      {
        client_id: id,
        client_secret: secret,
        redirect_uris: [redirect],
        grant_types: ["authorization_code", "refresh_token", "urn:ietf:params:oauth:grant-type:device_code"],
        response_types: ["code"],
      },
    ],
    features: { revocation: { enabled: true }, deviceFlow: { enabled: true }, devInteractions: { enabled: true } },
    pkce: { required: () => true, methods: ["S256"] },
    rotateRefreshToken: true,
    ttl: { AccessToken: 600, Session: 600, Grant: 600, Interaction: 600, RefreshToken: 600 },
    cookies: { keys: ["only for tests"] },
  });
  provider.on("server_error", (context, error) => console.error(error));
  handle = provider.callback();
  console.log(issuer);
});
process.stdin.resume();
process.stdin.on("end", () => process.exit(0));
