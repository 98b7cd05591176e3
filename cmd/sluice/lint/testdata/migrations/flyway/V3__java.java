public class V3__java {}
