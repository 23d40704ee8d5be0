import de.bwaldvogel.mongo.MongoServer;
import de.bwaldvogel.mongo.backend.memory.MemoryBackend;
import de.bwaldvogel.mongo.bson.Document;
import io.netty.channel.Channel;

/** Serves a database in memory on a free port, which it prints, until its input ends. */
public class Server {
    private static final int MONGODB_7 = 21;

    public static void main(String[] arguments) throws Exception {
        MongoServer server = new MongoServer(new MemoryBackend() {
            @Override
            public Document handleCommand(
                    Channel channel, String database, String command, Document query) {
                Document answer = super.handleCommand(channel, database, command, query);
                if (answer.containsKey("maxWireVersion")) {
                    answer.put("maxWireVersion", MONGODB_7); // clients refuse the server's own, 8
                }
                return answer;
            }
        });
        System.out.println(server.bind().getPort());
        System.in.read();
        server.shutdownNow();
    }
}
